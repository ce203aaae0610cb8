import type { Duplex } from 'node:stream'
import type Dockerode from 'dockerode'
import { EbbError } from '../../core/model/errors.ts'
import { type Daemon, statusOf, unreadable } from './daemon.ts'
import type { ContainerOrder, Docker } from './ports.ts'

/** The calls that change containers, over dockerode. None of them retries: the engine observes and calls again. */

/** Creating a container from a local image takes 50 ms and starting it 200 ms. A busy daemon takes longer. */
const createMs = 25_000
/** The daemon answers a SIGKILL when the container has ended, and waits 10 s for that (moby, daemon/kill.go). */
const killMs = 12_000
const changeMs = 5_000

/**
 * The daemon keeps all output until Ebb has copied it. Every option is set, because the daemon fills in missing ones from its own settings
 * (moby, mergeLogConfig), which may rotate the log or drop lines under load. The size is one that no log reaches, because the daemon
 * accepts no value for "unlimited". The driver `local` is not used: in 20.10 it loses the end of lines longer than 16 kB.
 */
const logging = { Type: 'json-file', Config: { 'max-size': '1000000g', 'max-file': '1', compress: 'false', mode: 'blocking' } }

export function dockerOver(daemon: Daemon): Docker {
  return {
    create: (order) =>
      daemon.call(createMs, undefined, async (client) => {
        const request = { _query: { name: order.name }, _body: bodyOf(order) }
        const { id } = await client.createContainer(request as unknown as Dockerode.ContainerCreateOptions)
        if (typeof id !== 'string') throw unreadable('the id of a container')
        return id
      }),
    start: async (id, input, signal) => {
      requireOpenScope(signal)
      // The input is attached before the start, so that the program never reads a premature end of its input.
      const stdin = await daemon.call(createMs, undefined, (client, abortSignal) => attach(client.getContainer(id), abortSignal))
      try {
        requireOpenScope(signal)
        await daemon.call(createMs, undefined, async (client) => void (await client.getContainer(id).start()))
      } catch (error) {
        stdin.destroy()
        throw error
      }
      return { done: new Promise<void>((resolve) => stdin.end(input, resolve).once('close', resolve)) }
    },
    signal: (id, signal) =>
      daemon.call(killMs, undefined, async (client) => {
        await ignoring([404, 409], client.getContainer(id).kill({ signal }))
      }),
    unpause: (id) =>
      daemon.call(changeMs, undefined, async (client) => {
        await ignoring([404, 409, 500], client.getContainer(id).unpause())
      }),
    forbidRestart: (id) =>
      daemon.call(changeMs, undefined, async (client) => {
        await ignoring([404], client.getContainer(id).update({ RestartPolicy: { Name: 'no', MaximumRetryCount: 0 } }))
      }),
    remove: (id) =>
      daemon.call(killMs, undefined, async (client) => {
        // 409: somebody else is removing the container.
        return await ignoring([404, 409], client.getContainer(id).remove({ force: true, v: true }))
      }),
  }
}

async function attach(container: Dockerode.Container, abortSignal: AbortSignal): Promise<Duplex> {
  const stdin = (await container.attach({ stream: true, stdin: true, stdout: false, stderr: false, hijack: true, abortSignal })) as Duplex
  // The connection ends with the container. The end of the container is observed separately, so an error of the connection is ignored.
  stdin.on('error', () => {})
  stdin.resume()
  return stdin
}

/** Throws when a close of the scope has begun. A container that is started during a close would only be ended again by that close. */
function requireOpenScope(signal: AbortSignal): void {
  if (signal.aborted) throw new EbbError('scope_closed', 'The container was not started: its scope is closing.')
}

/** Makes a call to the daemon. Returns false when the daemon answers that nothing is to be done; the next observation checks that. */
async function ignoring(statuses: readonly number[], work: Promise<unknown>): Promise<boolean> {
  try {
    await work
    return true
  } catch (error) {
    const status = statusOf(error) ?? (error as { readonly statusCode?: number }).statusCode
    if (status === undefined || !statuses.includes(status)) throw error
    return false
  }
}

/** The body of ContainerCreate in the Docker Engine API. */
function bodyOf(order: ContainerOrder): object {
  return {
    Image: order.image,
    Labels: order.labels,
    // An empty list overrides the entry point of the image, which would otherwise come before the command.
    Entrypoint: [],
    Cmd: order.argv,
    Env: Object.entries(order.env).map(([name, value]) => `${name}=${value}`),
    ...(order.workingDirectory !== undefined && { WorkingDir: order.workingDirectory }),
    ...(order.user !== undefined && { User: order.user }),
    OpenStdin: true,
    StdinOnce: true,
    AttachStdin: true,
    Tty: false,
    HostConfig: {
      AutoRemove: false,
      RestartPolicy: { Name: 'no' },
      LogConfig: logging,
      // `Binds` would create a missing folder, as root. `Mounts` does not.
      Mounts: order.mounts.map(({ source, target, isReadOnly }) => ({
        Type: 'bind',
        Source: source,
        Target: target,
        ReadOnly: isReadOnly,
      })),
      ...(order.network !== undefined && { NetworkMode: order.network }),
      ...(order.memoryBytes !== undefined && { Memory: order.memoryBytes }),
      ...(order.pids !== undefined && { PidsLimit: order.pids }),
      ...(order.cpus !== undefined && { NanoCpus: Math.round(order.cpus * 1e9) }),
    },
  }
}
