import type Dockerode from 'dockerode'
import { sentence } from '../../core/model/errors.ts'
import { type Daemon, statusOf, unreadable } from './daemon.ts'
import { splitFrames } from './frames.ts'
import { Listings, type Wanted } from './listings.ts'
import { containerLabels, type DockerQueries, type InspectedContainer, type OutputPiece, type SeenContainer } from './ports.ts'

/** The queries to the Docker daemon. They change nothing. */

/** A query takes 2 ms. This is less than the engine's deadline for an observation, so that the reason of a failure is reported. */
const observeTimeoutMs = 4_000

export function queriesOf(daemon: Daemon): DockerQueries {
  const identities = shared(() => identity(daemon))
  const listings = new Listings(containerLabels.installation, (wanted) => list(daemon, wanted))
  return {
    isLocal: daemon.place.host.startsWith('unix://'),
    host: daemon.place.host,
    identity: (signal) => daemon.call(observeTimeoutMs, signal, () => identities()),
    isNameFree: (name, signal) => isNameFree(daemon, name, signal),
    version: () => daemon.call(observeTimeoutMs, undefined, async (client) => (await client.version()).Version),
    hasImage: (image) => isThere(daemon.call(observeTimeoutMs, undefined, (client) => client.getImage(image).inspect())),
    hasNetwork: (network) => isThere(daemon.call(observeTimeoutMs, undefined, (client) => client.getNetwork(network).inspect())),
    inspect: async (id, signal) => {
      try {
        return inspected(
          await daemon.call(observeTimeoutMs, signal, (client, abortSignal) => client.getContainer(id).inspect({ abortSignal })),
        )
      } catch (error) {
        if (statusOf(error) === 404) return undefined
        throw error
      }
    },
    // The list is shared with other callers, so an abort only ends the wait.
    list: (labels, signal) => daemon.call(observeTimeoutMs, signal, () => listings.ask({ labels })),
    output: (id, follows, signal, streams = ['stdout', 'stderr']) =>
      output(daemon, id, { stdout: streams.includes('stdout'), stderr: streams.includes('stderr'), follow: follows }, signal),
    nextExit: async (id, signal, onRegistered) => await waitFor(daemon, id, 'next-exit', signal, onRegistered),
    stopped: (id, signal) => unlessGone(waitFor(daemon, id, 'not-running', signal, () => {})),
    removed: (id, signal) => unlessGone(waitFor(daemon, id, 'removed', signal, () => {})),
    pids: async (id) => {
      // The option `-o pid` makes the daemon list the pids as `ps` shows them on the daemon's host.
      const { Processes } = await daemon.call(observeTimeoutMs, undefined, async (client, abortSignal) =>
        client.getContainer(id).top({ ps_args: '-o pid', abortSignal }),
      )
      return (Processes as readonly (readonly string[])[]).map(([pid]) => Number(pid)).filter((pid) => pid > 0)
    },
  }
}

async function list(daemon: Daemon, { labels }: Wanted): Promise<readonly SeenContainer[]> {
  const label = Object.entries(labels).map(([name, value]) => `${name}=${value}`)
  const found = await daemon.call(observeTimeoutMs, undefined, (client, abortSignal) =>
    client.listContainers({ all: true, filters: { label }, abortSignal }),
  )
  // docker-modem returns a body that is not JSON as bytes. Zero bytes would look like an empty list (G4).
  if (!Array.isArray(found)) throw unreadable('a list of containers')
  return found.map(seen)
}

/**
 * The daemon's id and its data folder. The id alone is not enough: daemons of one host derive it from the same key, where there is one
 * (moby, LoadOrCreateID; seen with 28.2).
 */
async function identity(daemon: Daemon): Promise<string | undefined> {
  type Info = { readonly ID?: string; readonly DockerRootDir?: string }
  const { ID, DockerRootDir } = await daemon.call(observeTimeoutMs, undefined, async (client) => (await client.info()) as Info)
  return ID ? `${ID} with ${DockerRootDir ?? 'no folder'}` : undefined
}

/** Concurrent callers share one answer: a query takes 8 ms, and a close may stop thirty containers at once. */
function shared<T>(ask: () => Promise<T>): () => Promise<T> {
  let running: Promise<T> | undefined
  return () => {
    running ??= ask().finally(() => {
      running = undefined
    })
    return running
  }
}

/**
 * A security option that does not exist. The daemon refuses an order with this option, but only after it has reserved the name (moby,
 * daemon/create.go).
 */
const impossible = 'ebb-asks-for-the-name'

/**
 * Asks whether the name is free, by an order that cannot be carried out. The daemon reserves the name of an order first, for as long as it
 * works on the order. So it refuses this order because of the name or because of the option, and creates nothing (measured with 28.2).
 */
async function isNameFree(daemon: Daemon, name: string, signal: AbortSignal | undefined): Promise<boolean> {
  const order = { Image: '', Cmd: ['true'], HostConfig: { SecurityOpt: [impossible] } }
  const request = { _query: { name }, _body: order } as unknown as Dockerode.ContainerCreateOptions
  try {
    const made = await daemon.call(observeTimeoutMs, signal, (client) => client.createContainer(request))
    await daemon.call(observeTimeoutMs, undefined, () => made.remove({ force: true }))
  } catch (error) {
    if (statusOf(error) === 409) return false
    if (statusOf(error) !== undefined && sentence(error).includes(impossible)) return true
    throw error
  }
  return true
}

async function isThere(query: Promise<unknown>): Promise<boolean> {
  try {
    await query
    return true
  } catch (error) {
    if (statusOf(error) === 404) return false
    throw error
  }
}

async function unlessGone(event: Promise<unknown>): Promise<void> {
  try {
    await event
  } catch (error) {
    if (statusOf(error) !== 404) throw error
  }
}

async function* output(
  daemon: Daemon,
  id: string,
  query: Readonly<Record<'stdout' | 'stderr' | 'follow', boolean>>,
  signal: AbortSignal,
): AsyncIterable<OutputPiece> {
  const stream = await daemon.stream({ method: 'GET', path: `/containers/${id}/logs`, query }, signal)
  try {
    yield* splitFrames(stream)
  } finally {
    ;(stream as NodeJS.ReadableStream & { destroy(): void }).destroy()
  }
}

/**
 * The daemon sends the headers when it has registered the wait (moby, postContainersWait), and the body at the exit. An empty body means
 * that the daemon stopped.
 */
async function waitFor(daemon: Daemon, id: string, condition: string, signal: AbortSignal, onRegistered: () => void): Promise<number> {
  const stream = await daemon.stream({ method: 'POST', path: `/containers/${id}/wait`, query: { condition } }, signal)
  onRegistered()
  const pieces: Uint8Array[] = []
  for await (const piece of stream) pieces.push(piece)
  const { StatusCode } = JSON.parse(Buffer.concat(pieces).toString('utf8')) as { readonly StatusCode?: number }
  if (StatusCode === undefined) throw new Error('the Docker daemon did not say how the container ended')
  return StatusCode
}

function seen({ Id, Names, Labels, State }: Dockerode.ContainerInfo): SeenContainer {
  return { id: Id, name: nameOf(Names[0]), labels: Labels, state: State }
}

function inspected({ Id, Name, Config, State, HostConfig }: Dockerode.ContainerInspectInfo): InspectedContainer {
  const hasRun = !State.StartedAt.startsWith('0001-')
  return {
    id: Id,
    name: nameOf(Name),
    labels: Config.Labels ?? {},
    state: State.Status,
    pid: State.Pid > 0 ? State.Pid : undefined,
    exitCode: hasRun ? State.ExitCode : undefined,
    restartPolicy: HostConfig.RestartPolicy?.Name ?? '',
    runtime: (HostConfig as { readonly Runtime?: string }).Runtime ?? '',
  }
}

/** Names from the daemon begin with a slash. */
function nameOf(name: string | undefined): string {
  return (name ?? '').replace(/^\//, '')
}
