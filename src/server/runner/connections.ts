import { readFileSync, readlinkSync } from 'node:fs'
import type { Socket } from 'node:net'
import type { Clock } from '../../core/ports/clock.ts'

/**
 * Finds clients that vanished: a machine that lost its power or its network sends no FIN. Keepalive does not help while sent data is
 * unacknowledged: the kernel then only retransmits, for up to 15 minutes (tcp(7), tcp_retries2). So the kernel's table of connections
 * is read (proc_net_tcp.rst). Its columns `retrnsmt` and `timeout` count retransmissions, and probes of a closed window, that were
 * not acknowledged.
 */

export interface ConnectionTimes {
  /** How long sent data may stay unacknowledged. */
  readonly patienceMs: number
  readonly checkMs: number
}

const usualTimes: ConnectionTimes = { patienceMs: 15_000, checkMs: 1_000 }

/** For systems without /proc: the kernel probes a connection that is silent this long, and closes it after ten probes (libuv). */
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
  #checking: AbortController | undefined

  constructor(clock: Clock, times: Partial<ConnectionTimes> = {}) {
    this.#clock = clock
    this.#times = { ...usualTimes, ...times }
  }

  /** Destroys the connection when its client vanishes, until the watch is disposed of: a connection may serve several streams. */
  watch(socket: Socket): Disposable {
    socket.setKeepAlive(true, keepAliveMs)
    const inode = inodeOf(socket)
    if (inode === undefined) return { [Symbol.dispose]: () => {} }
    const watched: Watched = { socket, inode, silentSinceMs: undefined }
    this.#watched.add(watched)
    if (!this.#checking) {
      this.#checking = new AbortController()
      this.#clock.every(this.#times.checkMs, this.#checking.signal, () => this.#check())
    }
    return { [Symbol.dispose]: () => this.#leave(watched) }
  }

  #leave(watched: Watched): void {
    this.#watched.delete(watched)
    if (this.#watched.size > 0) return
    this.#checking?.abort()
    this.#checking = undefined
  }

  #check(): void {
    const unacknowledged = unacknowledgedInodes()
    const nowMs = this.#clock.now()
    for (const watched of this.#watched) {
      watched.silentSinceMs = unacknowledged.has(watched.inode) ? (watched.silentSinceMs ?? nowMs) : undefined
      if (watched.silentSinceMs !== undefined && nowMs - watched.silentSinceMs >= this.#times.patienceMs) watched.socket.destroy()
    }
  }
}

/** The inode identifies the socket. An address can be written in several ways, so it is harder to compare. */
function inodeOf(socket: Socket): string | undefined {
  // Node has no public way to get the descriptor of a socket.
  const { fd } = (Reflect.get(socket, '_handle') ?? {}) as { readonly fd?: number }
  if (fd === undefined || fd < 0) return undefined
  try {
    return /^socket:\[(\d+)\]$/.exec(readlinkSync(`/proc/self/fd/${fd}`))?.[1]
  } catch {
    return undefined
  }
}

/** The inodes of connections that have retransmitted or probed, and got no acknowledgement since. */
function unacknowledgedInodes(): ReadonlySet<string> {
  const inodes = new Set<string>()
  for (const table of ['tcp', 'tcp6']) {
    for (const line of tableOf(table)) {
      const [, , , , queues = '', , retransmits = '0', , probes = '0', inode = ''] = line.trim().split(/\s+/)
      const hasUnsent = !queues.startsWith('00000000:')
      if (hasUnsent && (Number.parseInt(retransmits, 16) > 0 || Number(probes) > 0)) inodes.add(inode)
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
