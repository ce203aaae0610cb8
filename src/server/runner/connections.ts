import { readFileSync, readlinkSync } from 'node:fs'
import type { Socket } from 'node:net'
import type { Clock } from '../../core/ports/clock.ts'

/**
 * Finds the clients that are gone without a word: no FIN ever comes from a machine that lost its power or its network.
 * Keepalive does not help while something that was sent is unacknowledged (the kernel then only retransmits, up to 15
 * minutes: tcp(7), tcp_retries2). So it is looked up what the kernel knows of the connection: proc_net_tcp.rst, columns
 * `retrnsmt` and `timeout`, are retransmissions and probes of a closed window that nobody has acknowledged.
 */

export interface ConnectionTimes {
  /** So long nothing may be acknowledged. */
  readonly patienceMs: number
  readonly lookMs: number
}

const usualTimes: ConnectionTimes = { patienceMs: 15_000, lookMs: 1_000 }

/** Where there is no /proc: after so long without a word the kernel asks, and ten unanswered questions later (libuv) it hangs up. */
const keepAliveMs = 5_000

interface Watched {
  readonly socket: Socket
  readonly inode: string
  silentSinceMs: number | undefined
}

export class Connections {
  readonly #clock: Clock
  readonly #times: ConnectionTimes
  readonly #watched = new Set<Watched>()
  #looking: AbortController | undefined

  constructor(clock: Clock, times: Partial<ConnectionTimes> = {}) {
    this.#clock = clock
    this.#times = { ...usualTimes, ...times }
  }

  /** Destroys the connection when its other end is gone; until disposed of: a connection may serve one stream after another. */
  watch(socket: Socket): Disposable {
    socket.setKeepAlive(true, keepAliveMs)
    const inode = inodeOf(socket)
    if (inode === undefined) return { [Symbol.dispose]: () => {} }
    const watched: Watched = { socket, inode, silentSinceMs: undefined }
    this.#watched.add(watched)
    if (!this.#looking) {
      this.#looking = new AbortController()
      this.#clock.every(this.#times.lookMs, this.#looking.signal, () => this.#look())
    }
    return { [Symbol.dispose]: () => this.#leave(watched) }
  }

  #leave(watched: Watched): void {
    this.#watched.delete(watched)
    if (this.#watched.size > 0) return
    this.#looking?.abort()
    this.#looking = undefined
  }

  #look(): void {
    const unheard = unheardConnections()
    const nowMs = this.#clock.now()
    for (const watched of this.#watched) {
      watched.silentSinceMs = unheard.has(watched.inode) ? (watched.silentSinceMs ?? nowMs) : undefined
      if (watched.silentSinceMs !== undefined && nowMs - watched.silentSinceMs >= this.#times.patienceMs) watched.socket.destroy()
    }
  }
}

/** By its inode, which is unique; addresses would have to be compared in all the ways in which one can be written. */
function inodeOf(socket: Socket): string | undefined {
  // Node gives the descriptor of a socket in no other way.
  const { fd } = (Reflect.get(socket, '_handle') ?? {}) as { readonly fd?: number }
  if (fd === undefined || fd < 0) return undefined
  try {
    return /^socket:\[(\d+)\]$/.exec(readlinkSync(`/proc/self/fd/${fd}`))?.[1]
  } catch {
    return undefined
  }
}

/** The inodes of the connections that have sent something again, and got no acknowledgement since. */
function unheardConnections(): ReadonlySet<string> {
  const inodes = new Set<string>()
  for (const table of ['tcp', 'tcp6']) {
    for (const line of tableOf(table)) {
      const [, , , , queues = '', , retransmits = '0', , probes = '0', inode = ''] = line.trim().split(/\s+/)
      const isOwing = !queues.startsWith('00000000:')
      if (isOwing && (Number.parseInt(retransmits, 16) > 0 || Number(probes) > 0)) inodes.add(inode)
    }
  }
  return inodes
}

function tableOf(name: string): readonly string[] {
  try {
    return readFileSync(`/proc/self/net/${name}`, 'latin1').split('\n').slice(1)
  } catch {
    return []
  }
}
