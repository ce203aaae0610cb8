import type { Duplex } from 'node:stream'
import type Dockerode from 'dockerode'
import { EbbError } from '../../core/model/errors.ts'
import { type Daemon, statusOf, unreadable } from './daemon.ts'
import type { ContainerOrder, Docker } from './ports.ts'

/** What we do to containers, over dockerode. Nothing is tried twice here: whoever asks looks, and asks again. */

/** Making one from an image that is there takes 50 ms, starting one 200 ms; a daemon that is busy takes longer. */
const makingMs = 25_000
/** The daemon answers a SIGKILL when it has seen the end, for which it waits 10 s (moby, daemon/kill.go). */
const endingMs = 12_000
const changingMs = 5_000

/**
 * Everything is kept for us to copy. Said in full, because what is left out is filled in from the daemon's own settings
 * (moby, mergeLogConfig), which may rotate, or drop lines when it is busy. A size that is never reached, because the daemon
 * takes none for "without end". Not the driver `local`: in 20.10 it loses the end of a line that is longer than 16 kB.
 */
const logging = { Type: 'json-file', Config: { 'max-size': '1000000g', 'max-file': '1', compress: 'false', mode: 'blocking' } }

export function dockerOver(daemon: Daemon): Docker {
  return {
    create: (order) =>
      daemon.call(makingMs, undefined, async (client) => {
        const request = { _query: { name: order.name }, _body: bodyOf(order) }
        const { id } = await client.createContainer(request as unknown as Dockerode.ContainerCreateOptions)
        if (typeof id !== 'string') throw unreadable('the id of a container')
        return id
      }),
    start: async (id, input, signal) => {
      requireWanted(signal)
      // Attached before it runs, so that it never reads an end that is none.
      const stdin = await daemon.call(makingMs, undefined, (client, abortSignal) => attach(client.getContainer(id), abortSignal))
      try {
        requireWanted(signal)
        await daemon.call(makingMs, undefined, async (client) => void (await client.getContainer(id).start()))
      } catch (error) {
        stdin.destroy()
        throw error
      }
      return { done: new Promise<void>((resolve) => stdin.end(input, resolve).once('close', resolve)) }
    },
    signal: (id, signal) =>
      daemon.call(endingMs, undefined, async (client) => {
        await quietly([404, 409], client.getContainer(id).kill({ signal }))
      }),
    unpause: (id) =>
      daemon.call(changingMs, undefined, async (client) => {
        await quietly([404, 409, 500], client.getContainer(id).unpause())
      }),
    forbidRestart: (id) =>
      daemon.call(changingMs, undefined, async (client) => {
        await quietly([404], client.getContainer(id).update({ RestartPolicy: { Name: 'no', MaximumRetryCount: 0 } }))
      }),
    remove: (id) =>
      daemon.call(endingMs, undefined, async (client) => {
        // 409: somebody else is removing it just now.
        return await quietly([404, 409], client.getContainer(id).remove({ force: true, v: true }))
      }),
  }
}

async function attach(container: Dockerode.Container, abortSignal: AbortSignal): Promise<Duplex> {
  const stdin = (await container.attach({ stream: true, stdin: true, stdout: false, stderr: false, hijack: true, abortSignal })) as Duplex
  // It ends with its container, however that ends.
  stdin.on('error', () => {})
  stdin.resume()
  return stdin
}

/** A close has begun: it would wait for what is started now, only to end it. */
function requireWanted(signal: AbortSignal): void {
  if (signal.aborted) throw new EbbError('scope_closed', 'The container was not started: its scope is closing.')
}

/** False is the daemon's word that there is nothing to do; whether that is so is for the next look to say. */
async function quietly(statuses: readonly number[], work: Promise<unknown>): Promise<boolean> {
  try {
    await work
    return true
  } catch (error) {
    const status = statusOf(error) ?? (error as { readonly statusCode?: number }).statusCode
    if (status === undefined || !statuses.includes(status)) throw error
    return false
  }
}

/** As the Engine API wants it (ContainerCreate). */
function bodyOf(order: ContainerOrder): object {
  return {
    Image: order.image,
    Labels: order.labels,
    // The image's own would come before the command.
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
      // `Mounts`, not `Binds`: those would make a missing folder, as root.
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
