import type { OtherEnd } from '../judgement/process-fact.ts'
import { namesIn, readLink, readText, startTimeOf } from './proc-facts.ts'

/** What the kernel's lists of sockets say of those that some processes have. The lists are of a network namespace, read once each. */

interface SocketLists {
  /** By number: whether it listens, what connections to it have in common, whether it is connected. */
  readonly sockets: ReadonlyMap<string, Socket>
  /** Addresses that somebody is connected to. */
  readonly connected: ReadonlySet<string>
}

interface Socket {
  readonly listens: boolean
  readonly address: string
  readonly peer: OtherEnd
  /** Over the network, and from here: nobody here listens on its port. */
  readonly talks: boolean
}

interface Served {
  readonly listens: boolean
  readonly isConnectedTo: boolean
  readonly talks: boolean
}

/** unix(7): SO_ACCEPTCON, which only a socket has that listens. */
const acceptsConnections = 0x10000

export class Sockets {
  readonly #lists = new Map<string, SocketLists>()

  /** Of the processes together; undefined when one of them did not let us look. */
  served(pids: readonly number[]): Served | undefined {
    let listens = false
    let talks = false
    let isConnectedTo = false
    for (const pid of pids) {
      const names = namesIn(`/proc/${pid}/fd`)
      // One that has gone meanwhile has nothing any more; of one that hides, nothing is known.
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
 * A connected socket is referred to by itself, by the table of sockets, and by its peer as long as that is open
 * (unix_release_sock puts the last one back): 3 with somebody at the other end, 2 without.
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
