import { lstatSync, statSync } from 'node:fs'
import type { OtherEnd, ProcessScene, StreamFact, Streams } from '../judgement/process-fact.ts'
import type { OpenFiles } from './open-files.ts'
import { namesIn, quietly, readLink } from './proc-facts.ts'
import type { Sockets } from './sockets.ts'

/** Where the standard streams of a process go, and whether anybody outside of its family has the other end. */

interface RawEnd {
  readonly is: 'raw-pipe' | 'raw-socket' | 'raw-fifo'
  /** Of a pipe with a name, its path. */
  readonly inode: string
}

type Raw = StreamFact | RawEnd

export type RawStreams = readonly [Raw, Raw, Raw]

export const rawStreamsOf = (pid: number): RawStreams => [streamOf(pid, 0), streamOf(pid, 1), streamOf(pid, 2)]

/** The pipes whose holders have to be known. */
export function pipesOf(streams: RawStreams): readonly string[] {
  return streams.flatMap((one) => (one.is === 'raw-pipe' || one.is === 'raw-fifo' ? [one.inode] : []))
}

/** Where agents keep the output of their tools. */
const agentsFiles = /\/claude-\d+\/.*\/tasks\/|\/gemini-shell-/

function streamOf(pid: number, fd: number): Raw {
  const target = readLink(`/proc/${pid}/fd/${fd}`)
  if (target === undefined) return { is: namesIn(`/proc/${pid}/fd`) === undefined ? 'unknown' : 'closed' }
  const [, kind, inode = ''] = /^(pipe|socket):\[(\d+)\]$/.exec(target) ?? []
  if (kind !== undefined) return { is: kind === 'pipe' ? 'raw-pipe' : 'raw-socket', inode }
  if (target === '/dev/null') return { is: 'null' }
  // A file may be called so; then it is there.
  const isDeleted = target.endsWith(' (deleted)') && quietly(() => lstatSync(target, { throwIfNoEntry: false })) === undefined
  if (/^\/dev\/(pts\/|tty|console)/.test(target)) return { is: 'terminal', isDeleted }
  if (!target.startsWith('/') || target.startsWith('/dev/')) return { is: 'other' }
  if (quietly(() => statSync(`/proc/${pid}/fd/${fd}`))?.isFIFO()) return { is: 'raw-fifo', inode: target }
  const path = isDeleted ? target.slice(0, -' (deleted)'.length) : target
  return { is: 'file', path, isDeleted, isAgents: agentsFiles.test(path) }
}

export interface Around {
  readonly scene: ProcessScene
  readonly open: OpenFiles | undefined
  readonly sockets: Sockets
  /** Who will be ended: what they hold does not count. */
  readonly going: ReadonlySet<number>
}

interface Holder {
  readonly pid: number
  readonly family: ReadonlySet<number>
}

export function resolvedStreams([stdin, stdout, stderr]: RawStreams, holder: Holder, around: Around): Streams {
  return {
    stdin: resolved(stdin, true, holder, around),
    stdout: resolved(stdout, false, holder, around),
    stderr: resolved(stderr, false, holder, around),
  }
}

function resolved(raw: Raw, isInput: boolean, holder: Holder, around: Around): StreamFact {
  if (!isRawEnd(raw)) return raw
  if (raw.is === 'raw-socket') return { is: 'socket', others: around.sockets.peer(holder.pid, raw.inode) }
  const others = otherEnd(raw.inode, isInput, holder, around)
  if (raw.is === 'raw-pipe') return { is: 'pipe', others }
  // It may be open under another name, and be opened at any time.
  return { is: 'named pipe', others: others === 'living' ? 'living' : 'unknown' }
}

function isRawEnd(raw: Raw): raw is RawEnd {
  return raw.is === 'raw-pipe' || raw.is === 'raw-socket' || raw.is === 'raw-fifo'
}

function otherEnd(inode: string, isInput: boolean, { family }: Holder, { scene, open, going }: Around): OtherEnd {
  const holders = open?.pipes.get(inode) ?? []
  const others = holders.filter(({ pid }) => !family.has(pid) && !going.has(pid))
  if (others.some(({ reads, writes }) => (isInput ? writes : reads))) return 'living'
  if (!open || open.unreadable.length > 0) return 'unknown'
  // A container's own output goes to somebody outside of it.
  const isOutsides = !scene.seesAll && others.some(({ pid }) => pid === 1 || scene.table.get(pid)?.ppid === 0)
  return isOutsides ? 'unknown' : 'none'
}
