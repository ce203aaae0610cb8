import { statSync } from 'node:fs'
import { basename, join } from 'node:path'
import { EbbError, errno, sentence } from '../../core/model/errors.ts'
import type { OnLoss } from '../../core/model/resource.ts'
import { type Planned, planned } from '../../core/ports/kind.ts'
import type { Placement, SettingCheck } from '../../core/ports/placement.ts'
import { type ProcessLaunch, type TreeMember, treeLabel } from '../../core/ports/process.ts'
import type { PlacementParts } from '../definition.ts'
import { configPath, type LaunchContext, planFiles } from '../files.ts'
import { Daemon, daemonPlace } from './daemon.ts'
import { dockerOver } from './docker.ts'
import { Followers } from './follower.ts'
import { parseDockerHost } from './host-option.ts'
import { ContainerKind } from './kind.ts'
import {
  type ContainerLive,
  type ContainerMount,
  type ContainerRunSpec,
  type ContainerSpec,
  containerKind,
  containerLabel,
  containerLabels,
  containerRunKind,
  type DockerQueries,
} from './ports.ts'
import { queriesOf } from './queries.ts'
import { ContainerRunKind } from './run.ts'
import { isOfContainer } from './signal-handlers.ts'

/** Placement `docker`: the command in a container of its own, from the configured image. */

interface DockerSettings {
  readonly dockerImage: string
  readonly dockerNetwork: string | undefined
  readonly dockerUser: string | undefined
  /** Mounts, each as `SOURCE:TARGET[:ro]`. */
  readonly dockerMount: readonly string[]
  /** Variables of the container, each as `NAME[=VALUE]`. */
  readonly dockerEnv: readonly string[]
  readonly dockerMemory: number | undefined
  readonly dockerPids: number | undefined
  readonly dockerCpus: number | undefined
  /** The values of the variables that the configuration passes on without a value. */
  readonly environment: Readonly<Record<string, string>>
}

interface DockerPlacementDeps {
  readonly settings: DockerSettings
  readonly host: string
  readonly context: LaunchContext
  readonly queries: DockerQueries
  /** True when the pid is that of a process of this host in the container. A pid that the daemon reports may be a pid of another host. */
  readonly isOfContainer: (pid: number, containerId: string) => boolean
}

/** The docker options as configured. The registry opens the placement only when an image is configured. */
type DockerOptions = Omit<DockerSettings, 'dockerImage' | 'environment'> & {
  readonly dockerImage: string | undefined
  readonly dockerHost: string | undefined
}

export function openDocker(options: DockerOptions, parts: PlacementParts): Placement {
  const { clock, effects, environment, inheritedTag, context, limitBytes, wrap } = parts
  const host = options.dockerHost ?? (environment.DOCKER_HOST && parseDockerHost(environment.DOCKER_HOST, 'DOCKER_HOST'))
  const daemon = new Daemon(daemonPlace(host || undefined, environment), clock)
  const queries = queriesOf(daemon)
  const shared = {
    docker: wrap('docker', dockerOver(daemon)),
    effects,
    queries,
    clock,
    followers: new Followers({ effects, queries, clock }),
    missedEnds: new Set<string>(),
  }
  const kinds = [new ContainerKind({ ...shared, inheritedTag, mostBytes: limitBytes }), new ContainerRunKind(shared)]
  const settings = { ...options, dockerImage: options.dockerImage ?? '', environment }
  const deps: DockerPlacementDeps = { settings, host: daemon.place.host, context, queries, isOfContainer }
  return {
    name: 'docker',
    kinds,
    plan: (scopeId, launch) => planDocker(context, settings, scopeId, launch),
    requireReady: () => requireReady(deps),
    check: () => check(deps),
    running: () => running(deps),
  }
}

/**
 * The run depends on the container, and the container depends on its logs. So the end of the run is observed first, then the output is
 * copied, then the container is removed, and then the logs are archived.
 */
function planDocker(context: LaunchContext, settings: DockerSettings, scopeId: string, launch: ProcessLaunch): readonly Planned[] {
  const { installation, keepsSessions } = context
  const onLoss: OnLoss = keepsSessions ? 'keep' : 'end'
  const files = planFiles(context, scopeId, launch, 'follower')
  const mostBytes = launch.order?.configuration.limits?.logBytes
  const spec: ContainerSpec = { installation, image: settings.dockerImage, ...(mostBytes !== undefined && { mostBytes }) }
  const run: ContainerRunSpec = {
    installation,
    program: basename(launch.argv[0] ?? ''),
    ...(launch.politeSignal && { politeSignal: launch.politeSignal }),
  }
  const input = { input: typeof launch.stdin === 'object' ? launch.stdin.text : '' }
  const names = files.map(({ label }) => label)
  const plan: readonly Planned[] = [
    ...files,
    planned({ label: containerLabel, kind: containerKind, spec, live: liveOf(context, settings, scopeId, launch), dependsOn: names }),
    planned({ label: treeLabel, kind: containerRunKind, spec: run, live: input, dependsOn: [...names, containerLabel] }),
  ]
  return plan.map((resource) => ({ ...resource, onLoss }))
}

function liveOf(context: LaunchContext, settings: DockerSettings, scopeId: string, launch: ProcessLaunch): ContainerLive {
  const { limits, workingDirectory } = launch
  const memoryBytes = limits?.memoryBytes ?? settings.dockerMemory
  const pids = limits?.pids ?? settings.dockerPids
  const { dockerUser: user, dockerNetwork: network, dockerCpus: cpus } = settings
  return {
    argv: launch.argv,
    env: { ...variablesOf(settings), ...launch.ownEnv },
    mounts: [...settings.dockerMount.map(parseMount), ...ownMounts(context, scopeId, launch)],
    ...(workingDirectory !== undefined && { workingDirectory }),
    ...(user !== undefined && { user }),
    ...(network !== undefined && { network }),
    ...(memoryBytes !== undefined && { memoryBytes }),
    ...(pids !== undefined && { pids }),
    ...(cpus !== undefined && { cpus }),
  }
}

/** From the environment of this process, only the variables that the configuration names are passed on. */
function variablesOf({ dockerEnv, environment }: DockerSettings): Readonly<Record<string, string>> {
  return Object.fromEntries(
    dockerEnv.flatMap((text) => {
      const at = text.indexOf('=')
      if (at >= 0) return [[text.slice(0, at), text.slice(at + 1)]]
      const ours = environment[text]
      return ours === undefined ? [] : [[text, ours]]
    }),
  )
}

function parseMount(text: string): ContainerMount {
  const [source = '', target = '', mode] = text.split(':')
  return { source, target, isReadOnly: mode === 'ro' }
}

/** The folder of the task and the configuration file of the program have the same path inside as outside. */
function ownMounts(context: LaunchContext, scopeId: string, { workspace, config }: ProcessLaunch): readonly ContainerMount[] {
  const folder = workspace && join(workspace.base, workspace.path)
  const file = config && join(context.home, configPath(context, scopeId, config.name))
  return [
    ...(folder !== undefined ? [{ source: folder, target: folder, isReadOnly: false }] : []),
    ...(file !== undefined ? [{ source: file, target: file, isReadOnly: true }] : []),
  ]
}

/** Throws when the daemon does not have the image or does not answer, or when the package dockerode is not installed. */
async function requireReady({ queries, settings: { dockerImage } }: DockerPlacementDeps): Promise<void> {
  let isThere: boolean
  try {
    isThere = await queries.hasImage(dockerImage)
  } catch (cause) {
    if (cause instanceof EbbError) throw cause
    throw new EbbError('launch_refused', `No container can be started: ${sentence(cause)}. Start the daemon, or set docker.host.`, {
      cause,
    })
  }
  if (!isThere) throw new EbbError('launch_refused', missingImage(dockerImage))
}

function missingImage(image: string): string {
  return `The Docker daemon has no image ${image}; run "docker pull ${image}", or set docker.image to an image that it has.`
}

async function check({ queries, host, settings }: DockerPlacementDeps): Promise<readonly SettingCheck[]> {
  const { dockerImage, dockerNetwork, dockerMount } = settings
  // A daemon behind an address mounts files of its own host, which cannot be checked here.
  const mounts = queries.isLocal ? dockerMount.map((text) => checkMount(parseMount(text))) : []
  const daemon = await tryOut('docker.host', async () => good(`the daemon at ${host} is version ${await queries.version()}`))
  // When the daemon does not answer, the checks of the image and the network would only report the same problem again.
  if (!daemon.isGood) return [daemon, ...mounts]
  const image = tryOut('docker.image', async () =>
    (await queries.hasImage(dockerImage)) ? good(`${dockerImage} is there`) : bad(missingImage(dockerImage)),
  )
  const network =
    dockerNetwork === undefined
      ? []
      : [
          tryOut('docker.network', async () =>
            (await queries.hasNetwork(dockerNetwork))
              ? good(`${dockerNetwork} is there`)
              : bad(`The Docker daemon has no network ${dockerNetwork}; run "docker network create ${dockerNetwork}".`),
          ),
        ]
  return [daemon, ...(await Promise.all([image, ...network])), ...mounts]
}

function checkMount({ source }: ContainerMount): SettingCheck {
  const setting = 'docker.mount'
  return isMissing(source)
    ? { setting, ...bad(`There is no ${source} on this host, and Ebb does not create it; create it, or mount something else.`) }
    : { setting, ...good(`${source} is there`) }
}

/**
 * True when nothing exists at the path. A path that this user may not read may still be readable for the daemon, so it does not count as
 * missing.
 */
function isMissing(path: string): boolean {
  try {
    statSync(path)
    return false
  } catch (error) {
    return errno(error) === 'ENOENT' || errno(error) === 'ENOTDIR'
  }
}

const good = (says: string): Omit<SettingCheck, 'setting'> => ({ isGood: true, says })
const bad = (says: string): Omit<SettingCheck, 'setting'> => ({ isGood: false, says })

async function tryOut(setting: string, attempt: () => Promise<Omit<SettingCheck, 'setting'>>): Promise<SettingCheck> {
  try {
    return { setting, ...(await attempt()) }
  } catch (error) {
    return { setting, ...bad(sentence(error)) }
  }
}

/** Processes in containers of this installation, as far as this host shows them, including those that cleared their environment. */
async function running({ queries, context, isOfContainer }: DockerPlacementDeps): Promise<readonly TreeMember[]> {
  if (!queries.isLocal) return []
  // When the daemon does not answer, the ledger still lists the agents. This list only adds their processes.
  const ours = await queries.list({ [containerLabels.installation]: context.installation }).catch(() => [])
  const members = await Promise.all(
    ours
      .filter(({ state }) => state === 'running' || state === 'paused')
      .map(async ({ id, labels }) => {
        // The container may have ended since it was listed.
        const pids = await queries.pids(id).catch(() => [])
        const resourceId = labels[containerLabels.resource] ?? ''
        const incarnation = labels[containerLabels.incarnation] ?? ''
        return pids.filter((pid) => isOfContainer(pid, id)).map((pid) => ({ pid, resourceId, incarnation }))
      }),
  )
  return members.flat()
}
