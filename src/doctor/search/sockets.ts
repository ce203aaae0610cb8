import type { OtherEnd } from '../judgement/process-fact.ts'
import { namesIn, readLink, readText, startTimeOf } from './proc-facts.ts'

/** Looks up the sockets of processes in the kernel's lists. There is one set of lists per network namespace, and each is read once. */

interface SocketLists {
  /** The sockets by their inode numbers. */
  readonly sockets: ReadonlyMap<string, Socket>
  /** Addresses that have a connected client. */
  readonly connected: ReadonlySet<string>
}

interface Socket {
  readonly listens: boolean
  /** A TCP port, or the path of a Unix socket. Connections to a listening socket have its address. */
  readonly address: string
  readonly peer: OtherEnd
  /** True for an outgoing network connection: no process of this network namespace listens on the local port. */
  readonly talks: boolean
}

interface Served {
  readonly listens: boolean
  readonly isConnectedTo: boolean
  readonly talks: boolean
}

/** The flag __SO_ACCEPTCON in /proc/net/unix, which only a listening socket has. */
const acceptsConnections = 0x10000

export class Sockets {
  readonly #lists = new Map<string, SocketLists>()

  /** What the sockets of all these processes show together. Undefined when the descriptors of one process could not be read. */
  served(pids: readonly number[]): Served | undefined {
    let listens = false
    let talks = false
    let isConnectedTo = false
    for (const pid of pids) {
      const names = namesIn(`/proc/${pid}/fd`)
      // A process that has ended meanwhile has no sockets. A process whose descriptors cannot be read makes the answer unknown.
      if (names === undefined && startTimeOf(pid) === undefined) continue
      if (names === undefined) return undefined
      for (const fd of names) {
        const inode = /^socket:\[(\d+)\]$/.exec(readLink(`/proc/${pid}/fd/${fd}`) ?? '')?.[1]
        const lists = inode === undefined ? undefined : this.#of(pid)
        const socket = inode === undefined ? undefined : lists?.sockets.get(inode)
        talks ||= socket?.talks ?? false
        if (!socket?.listens) continue
        listens = true
        isConnectedTo ||= lists?.connected.has(socket.address) ?? false
      }
    }
    return { listens, isConnectedTo, talks }
  }

  peer(pid: number, inode: string): OtherEnd {
    return this.#of(pid).sockets.get(inode)?.peer ?? 'unknown'
  }

  #of(pid: number): SocketLists {
    const namespace = readLink(`/proc/${pid}/ns/net`) ?? `of ${pid}`
    const known = this.#lists.get(namespace) ?? readLists(pid)
    this.#lists.set(namespace, known)
    return known
  }
}

function readLists(pid: number): SocketLists {
  const sockets = new Map<string, Socket>()
  const connected = new Set<string>()
  const lines = ['tcp', 'tcp6'].flatMap((name) => rows(`/proc/${pid}/net/${name}`))
  const ports = lines.map(([, local = '', , state = '', , , , , , inode = '']) => ({ state, inode, address: portOf(local) }))
  const listening = new Set(ports.flatMap(({ state, address }) => (state === '0A' ? [address] : [])))
  for (const { state, inode, address } of ports) {
    const isConnected = state === '01'
    if (isConnected) connected.add(address)
    if (isConnected || state === '0A')
      sockets.set(inode, { listens: !isConnected, address, peer: 'unknown', talks: isConnected && !listening.has(address) })
  }
  for (const line of rows(`/proc/${pid}/net/unix`)) {
    const [, references = '', , flags = '', , state = '', inode = '', path = ''] = line
    const listens = (Number.parseInt(flags, 16) & acceptsConnections) !== 0
    sockets.set(inode, { listens, address: path, peer: peerOf(references, state), talks: false })
    if (!listens && state === '03' && path !== '') connected.add(path)
  }
  return { sockets, connected }
}

/**
 * Whether the peer of a connected Unix socket is open, by the reference count of the socket. The count has one for the socket itself, one
 * for the socket table, and one for the peer while that is open (unix_release_sock drops it). So 3 means that the peer is open, and 2 that
 * it is closed.
 */
function peerOf(references: string, state: string): OtherEnd {
  if (state !== '03') return 'unknown'
  return Number.parseInt(references, 16) === 2 ? 'none' : 'living'
}

const portOf = (local: string): string => `port ${local.slice(local.lastIndexOf(':') + 1)}`

function rows(path: string): readonly (readonly string[])[] {
  return (readText(path) ?? '')
    .split('\n')
    .slice(1)
    .map((line) => line.trim().split(/\s+/))
}
