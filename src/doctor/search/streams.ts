import { lstatSync, statSync } from 'node:fs'
import type { OtherEnd, ProcessScene, StreamFact, Streams } from '../judgement/process-fact.ts'
import type { OpenFiles } from './open-files.ts'
import { namesIn, readLink, tryRead } from './proc-facts.ts'
import type { Sockets } from './sockets.ts'

/** Finds where the standard streams of a process go, and whether a process outside of its family has the other end. */

interface RawEnd {
  readonly is: 'raw-pipe' | 'raw-socket' | 'raw-fifo'
  /** The inode number of a pipe or socket, or the path of a named pipe. */
  readonly inode: string
}

type Raw = StreamFact | RawEnd

export type RawStreams = readonly [Raw, Raw, Raw]

export const rawStreamsOf = (pid: number): RawStreams => [streamOf(pid, 0), streamOf(pid, 1), streamOf(pid, 2)]

/** The pipes whose holders must be searched for. */
export function pipesOf(streams: RawStreams): readonly string[] {
  return streams.flatMap((one) => (one.is === 'raw-pipe' || one.is === 'raw-fifo' ? [one.inode] : []))
}

/** Matches the folders in which agents collect the output of their tools. */
const agentsFiles = /\/claude-\d+\/.*\/tasks\/|\/gemini-shell-/

function streamOf(pid: number, fd: number): Raw {
  const target = readLink(`/proc/${pid}/fd/${fd}`)
  if (target === undefined) return { is: namesIn(`/proc/${pid}/fd`) === undefined ? 'unknown' : 'closed' }
  const [, kind, inode = ''] = /^(pipe|socket):\[(\d+)\]$/.exec(target) ?? []
  if (kind !== undefined) return { is: kind === 'pipe' ? 'raw-pipe' : 'raw-socket', inode }
  if (target === '/dev/null') return { is: 'null' }
  // The kernel appends " (deleted)" to the name of a deleted file. When a file with the whole name exists, the suffix belongs to its name.
  const isDeleted = target.endsWith(' (deleted)') && tryRead(() => lstatSync(target, { throwIfNoEntry: false })) === undefined
  if (/^\/dev\/(pts\/|tty|console)/.test(target)) return { is: 'terminal', isDeleted }
  if (!target.startsWith('/') || target.startsWith('/dev/')) return { is: 'other' }
  if (tryRead(() => statSync(`/proc/${pid}/fd/${fd}`))?.isFIFO()) return { is: 'raw-fifo', inode: target }
  const path = isDeleted ? target.slice(0, -' (deleted)'.length) : target
  return { is: 'file', path, isDeleted, isAgents: agentsFiles.test(path) }
}

export interface StreamContext {
  readonly scene: ProcessScene
  readonly open: OpenFiles | undefined
  readonly sockets: Sockets
  /** Processes that will be ended: pipe ends that they hold do not count. */
  readonly ending: ReadonlySet<number>
}

interface Holder {
  readonly pid: number
  readonly family: ReadonlySet<number>
}

export function resolvedStreams([stdin, stdout, stderr]: RawStreams, holder: Holder, context: StreamContext): Streams {
  return {
    stdin: resolved(stdin, true, holder, context),
    stdout: resolved(stdout, false, holder, context),
    stderr: resolved(stderr, false, holder, context),
  }
}

function resolved(raw: Raw, isInput: boolean, holder: Holder, context: StreamContext): StreamFact {
  if (!isRawEnd(raw)) return raw
  if (raw.is === 'raw-socket') return { is: 'socket', others: context.sockets.peer(holder.pid, raw.inode) }
  const others = otherEnd(raw.inode, isInput, holder, context)
  if (raw.is === 'raw-pipe') return { is: 'pipe', others }
  // A process may have the named pipe open under another name, or open it at any time.
  return { is: 'named pipe', others: others === 'living' ? 'living' : 'unknown' }
}

function isRawEnd(raw: Raw): raw is RawEnd {
  return raw.is === 'raw-pipe' || raw.is === 'raw-socket' || raw.is === 'raw-fifo'
}

function otherEnd(inode: string, isInput: boolean, { family }: Holder, { scene, open, ending }: StreamContext): OtherEnd {
  const holders = open?.pipes.get(inode) ?? []
  const others = holders.filter(({ pid }) => !family.has(pid) && !ending.has(pid))
  if (others.some(({ reads, writes }) => (isInput ? writes : reads))) return 'living'
  if (!open || open.unreadable.length > 0) return 'unknown'
  // The output of a container's first process goes to a reader outside of the container.
  const isOutsides = !scene.seesAll && others.some(({ pid }) => pid === 1 || scene.table.get(pid)?.ppid === 0)
  return isOutsides ? 'unknown' : 'none'
}
