import { list, option, parseCount, parseSize, parseText } from '../../config/option.ts'
import { EbbError } from '../../core/model/errors.ts'
import { definePlacement } from '../definition.ts'
import { parseDockerHost } from './host-option.ts'

/** Runs the command in a Docker container of its own, from the configured image. */
export const docker = definePlacement({
  name: 'docker',
  labels: {
    title: 'Docker',
    waitsFor: 'Docker to start the container',
    resources: { container: { title: 'Container' }, 'container-run': { title: 'Container run', endsProcesses: true } },
  },
  isRemote: true,
  options: {
    dockerImage: option<string | undefined>('IMAGE', 'the image of the placement docker', undefined, parseText),
    dockerHost: option<string | undefined>(
      'unix:///PATH|tcp://HOST:PORT',
      'address of the Docker daemon; by default DOCKER_HOST, else the usual socket',
      undefined,
      parseDockerHost,
    ),
    dockerNetwork: option<string | undefined>('NETWORK', "the network of containers; by default the daemon's", undefined, parseText),
    dockerUser: option<string | undefined>('USER[:GROUP]', 'the user of containers; by default that of the image', undefined, parseText),
    dockerMount: list('SOURCE:TARGET[:ro]', 'a folder of this host to mount into containers', parseMount),
    dockerEnv: list('NAME[=VALUE]', 'a variable for containers; without VALUE, it is copied from the environment of Ebb', parseVariable),
    dockerMemory: option<number | undefined>('SIZE', 'the memory limit of a container', undefined, parseSize),
    dockerPids: option<number | undefined>('N', 'the limit of processes in a container', undefined, parseCount),
    dockerCpus: option<number | undefined>('N', 'how many processors a container may use, such as 1.5', undefined, parseShare),
  },
  requires: { option: 'dockerImage', what: 'an image that the daemon has' },
  recoveryEnvironment: ({ dockerImage, dockerHost }, { DOCKER_HOST, DOCKER_TLS_VERIFY, DOCKER_CERT_PATH }) => ({
    // The daemon is found by the same variables as by the docker command.
    ...{ DOCKER_HOST, DOCKER_TLS_VERIFY, DOCKER_CERT_PATH },
    EBB_DOCKER_IMAGE: dockerImage,
    EBB_DOCKER_HOST: dockerHost,
  }),
  open: async (settings, parts) => (await import('./placement.ts')).openDocker(settings, parts),
})

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
