import { parseDuration } from '../core/model/duration.ts'
import { EbbError } from '../core/model/errors.ts'
import { list, option, parseBase, parseCount, parsePort, parseSize, parseText, parseToken, toggle } from './option.ts'

/** The settings of agents that run elsewhere than as processes of this host. */

export const dockerOptions = {
  dockerImage: option<string | undefined>('IMAGE', 'the image of the placement docker', undefined, parseText),
  dockerHost: option<string | undefined>(
    'unix:///PATH|tcp://HOST:PORT',
    'where the Docker daemon answers; else DOCKER_HOST, else its usual socket',
    undefined,
    parseDockerHost,
  ),
  dockerNetwork: option<string | undefined>('NETWORK', "the network of containers; by default the daemon's", undefined, parseText),
  dockerUser: option<string | undefined>('USER[:GROUP]', 'as whom containers run; by default as the image says', undefined, parseText),
  dockerMount: list('SOURCE:TARGET[:ro]', 'a folder of this host that containers see', parseMount),
  dockerEnv: list('NAME[=VALUE]', 'a variable for containers; without a value, ours', parseVariable),
  dockerMemory: option<number | undefined>('SIZE', 'the most memory a container may take', undefined, parseSize),
  dockerPids: option<number | undefined>('N', 'the most processes a container may have at a time', undefined, parseCount),
  dockerCpus: option<number | undefined>('N', 'how many processors a container may use, such as 1.5', undefined, parseShare),
}

export const ecsOptions = {
  ecsCluster: option<string | undefined>('CLUSTER', 'the cluster of the placement ecs, by name or ARN', undefined, parseText),
  ecsTaskDefinition: option<string | undefined>('FAMILY[:REVISION]', 'the task definition that is run', undefined, parseText),
  ecsContainerName: option<string | undefined>('NAME', 'its container in which the runner answers', undefined, parseText),
  ecsSubnets: list('SUBNET', 'a subnet in which tasks run'),
  ecsSecurityGroups: list('GROUP', 'a security group of the tasks'),
  ecsAssignPublicIp: toggle('give tasks a public address as well'),
  ecsPort: option('4400', 'the port on which the runner in a task answers', 4_400, parsePort),
  ecsToken: option<string | undefined>('TOKEN', 'what the runner in a task wants to be shown', undefined, parseToken),
  ecsTargetGroup: option<string | undefined>('ARN', 'the target group in which tasks are registered', undefined, parseText),
  ecsBucket: option<string | undefined>('BUCKET', 'where results are uploaded before a task is stopped', undefined, parseText),
  ecsPrefix: option('ebb', 'what the keys in the bucket begin with', 'ebb', parsePrefix),
  ecsRegion: option<string | undefined>('REGION', 'the AWS region; else as the AWS SDK finds it', undefined, parseText),
  ecsEndpoint: option<string | undefined>('URL', 'another endpoint for all AWS calls, such as an emulator', undefined, parseBase),
  ecsUploadDeadline: option<number | undefined>(
    'DURATION',
    'after how long an upload that cannot be confirmed is given up, and its task stopped; by default never',
    undefined,
    parseDuration,
  ),
}

/** Without the first there is no placement, and nobody uses the others. */
const placements = [
  { placement: 'docker', first: 'dockerImage', options: dockerOptions, what: 'an image that the daemon has' },
  { placement: 'ecs', first: 'ecsCluster', options: ecsOptions, what: 'the cluster in which tasks run' },
] as const

/** Settings that are of no use as they stand, as they are called in a configuration. */
export function unusedSettings(
  settings: Readonly<Record<keyof typeof dockerOptions | keyof typeof ecsOptions, unknown>>,
): readonly { readonly setting: string; readonly says: string }[] {
  return placements.flatMap(({ placement, first, options, what }) => {
    if (settings[first] !== undefined) return []
    const all = Object.entries(options) as [keyof typeof settings, { readonly fallback: unknown }][]
    const said = all.filter(([key, { fallback }]) => settings[key] !== fallback).map(([key]) => inConfiguration(placement, key))
    if (said.length === 0) return []
    const setting = inConfiguration(placement, first)
    const are = said.length === 1 ? 'is' : 'are'
    return [{ setting, says: `${said.join(' and ')} ${are} set, but the placement ${placement} needs ${setting}, ${what}.` }]
  })
}

function inConfiguration(placement: string, key: string): string {
  return `${placement}.${key.charAt(placement.length).toLowerCase()}${key.slice(placement.length + 1)}`
}

/** Also for what is in DOCKER_HOST, in the same words. */
export function parseDockerHost(text: string, name: string): string {
  if (/^unix:\/\/\/.+/.test(text) || /^tcp:\/\/[^\s/]+:\d{1,5}\/?$/.test(text)) return text
  throw new EbbError('bad_usage', `${name} must be unix:///PATH or tcp://HOST:PORT, not "${text}".`)
}

function parseMount(text: string, name: string): string {
  if (/^\/[^:]*:\/[^:]*(:ro)?$/.test(text)) return text
  throw new EbbError('bad_usage', `${name} must be SOURCE:TARGET or SOURCE:TARGET:ro with absolute paths, not "${text}".`)
}

function parseVariable(text: string, name: string): string {
  if (/^[A-Za-z_][A-Za-z0-9_]*(=.*)?$/s.test(text)) return text
  throw new EbbError('bad_usage', `${name} must be NAME or NAME=VALUE, and the name letters, digits and underscores.`)
}

function parseShare(text: string, name: string): number {
  if (!/^\d{1,4}(\.\d{1,3})?$/.test(text) || Number(text) === 0)
    throw new EbbError('bad_usage', `${name} must be a number such as 2 or 0.5, not "${text}".`)
  return Number(text)
}

/** It becomes the beginning of a key: no way up, and no slash at either end. */
function parsePrefix(text: string, name: string): string {
  if (/^[A-Za-z0-9._-]+(\/[A-Za-z0-9._-]+)*$/.test(text) && !text.split('/').some((part) => /^\.+$/.test(part))) return text
  throw new EbbError('bad_usage', `${name} must be names of letters, digits, ".", "_" and "-", with slashes between them, not "${text}".`)
}
