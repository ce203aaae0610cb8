import { recognise } from '../judgement/agent-program.ts'
import type { Leftover } from '../judgement/leftover.ts'
import { isEbbs, isSuspect, judgeProcess, kindOf } from '../judgement/leftover-process.ts'
import {
  childrenIn,
  familyOf,
  type InnerFact,
  type LivingAgent,
  type ProcessDetail,
  type ProcessFact,
  type ProcessScene,
} from '../judgement/process-fact.ts'
import { wrappedBy } from '../judgement/wrapper.ts'
import { type OpenFiles, openFiles } from './open-files.ts'
import { environOf, readLink, readText, seesAllProcesses } from './proc-facts.ts'
import { Sockets } from './sockets.ts'
import { pipesOf, type RawStreams, rawStreamsOf, resolvedStreams } from './streams.ts'

/** Searches for processes that agent runs have left. It collects the facts; `judgeProcess` decides. */
export interface ProcessSearch {
  readonly table: ReadonlyMap<number, ProcessFact>
  /** Tests restrict the search to their own processes: every other process is neither a suspect nor an agent that may own one. */
  readonly only: ((pid: number) => boolean) | undefined
}

/** A reader that is itself a leftover does not count as a reader, so the judgement is repeated until it is stable, at most this often. */
const maxRounds = 4

interface Suspect {
  readonly fact: ProcessFact
  readonly detail: Omit<ProcessDetail, 'stdin' | 'stdout' | 'stderr' | 'inner'>
  readonly streams: RawStreams
  readonly inner: Inner | undefined
  readonly family: ReadonlySet<number>
}

interface Inner extends Omit<InnerFact, 'streams'> {
  readonly streams: readonly { readonly pid: number; readonly raw: RawStreams }[]
}

export async function findProcesses({ table, only }: ProcessSearch): Promise<readonly Leftover[]> {
  const scene: ProcessScene = {
    table,
    children: childrenIn(table.values()),
    agents: agentsIn(table).filter(({ pid }) => only?.(pid) ?? true),
    uid: process.getuid?.() ?? 0,
    family: ancestors(table),
    seesAll: seesAllProcesses(),
    nowMs: Date.now(),
  }
  const sockets = new Sockets()
  const suspects = [...table.values()]
    .filter((fact) => isSuspect(fact, scene) && (only?.(fact.pid) ?? true))
    .flatMap((fact) => suspectOf(fact, scene, sockets) ?? [])
  const wanted = new Set(
    suspects.flatMap(({ streams, inner }) => [streams, ...(inner?.streams ?? []).map(({ raw }) => raw)].flatMap(pipesOf)),
  )
  const open = wanted.size === 0 ? undefined : await openFiles(table, wanted, [])
  return judged(suspects, scene, open, sockets)
}

function judged(suspects: readonly Suspect[], scene: ProcessScene, open: OpenFiles | undefined, sockets: Sockets): readonly Leftover[] {
  let found: readonly Leftover[] = []
  let ending: ReadonlySet<number> = new Set()
  for (let round = 0; round < maxRounds; round++) {
    const agents = scene.agents.filter(({ pid }) => !ending.has(pid))
    found = suspects.flatMap((suspect) => {
      const { fact, detail, family } = suspect
      const context = { scene, open, sockets, ending }
      const streams = resolvedStreams(suspect.streams, { pid: fact.pid, family }, context)
      const inner = suspect.inner && {
        ...suspect.inner,
        streams: suspect.inner.streams.map(({ pid, raw }) => resolvedStreams(raw, { pid, family }, context)),
      }
      return judgeProcess(fact, { ...detail, ...streams, inner }, { ...scene, agents }) ?? []
    })
    const next = new Set(found.filter(({ fixes }) => fixes).flatMap(({ processes }) => processes.map(({ pid }) => pid)))
    if (next.size === ending.size) break
    ending = next
  }
  return found
}

/** The running agents of this user. An agent of another user cannot own this user's processes. */
export function agentsIn(table: ReadonlyMap<number, ProcessFact>): readonly LivingAgent[] {
  const own = process.getuid?.()
  return [...table.values()].flatMap(({ argv, pid, startTime, uid }) => {
    const known = uid === own && argv.length > 0 ? recognise(argv, readLink(`/proc/${pid}/exe`)) : undefined
    return known?.kind === 'agent' ? [{ pid, startTime, program: known.name }] : []
  })
}

function ancestors(table: ReadonlyMap<number, ProcessFact>): ReadonlySet<number> {
  const found = new Set<number>()
  for (let pid = process.pid; pid > 0 && !found.has(pid); pid = table.get(pid)?.ppid ?? 0) found.add(pid)
  return found
}

/** Matches browsers that an MCP server starts. Only that server connects to their sockets, so these sockets are no sign of use. */
const browsers = /^(chrom.*|headless_shell|firefox.*|Web Content|WebKit.*|msedge)$/

function suspectOf(fact: ProcessFact, scene: ProcessScene, sockets: Sockets): Suspect | undefined {
  const { pid } = fact
  const environ = environOf(pid)
  const exe = readLink(`/proc/${pid}/exe`)
  const cwd = readLink(`/proc/${pid}/cwd`)
  const own = kindOf(fact, { exe, environ, cwd })
  const inner = own === undefined ? innerOf(fact, scene) : undefined
  const kind = own ?? inner?.known.kind
  if (kind === undefined) return undefined
  const namespace = readLink(`/proc/${pid}/ns/pid`)
  const family = familyOf(fact, scene.children)
  const served = sockets.served(family.filter(({ command }) => kind !== 'mcp-server' || !browsers.test(command)).map((one) => one.pid))
  return {
    fact,
    detail: {
      exe,
      environ,
      cwd,
      cgroups: readText(`/proc/${pid}/cgroup`),
      isInOurPidNamespace: namespace === undefined ? undefined : namespace === readLink('/proc/self/ns/pid'),
      listens: served?.listens,
      isConnectedTo: served?.isConnectedTo,
      talks: served?.talks,
      isOnDisplay: kind === 'tool' && family.some(isOnDisplay),
      hasEbbBelow: family.slice(1).some(isEbbProcess),
    },
    streams: rawStreamsOf(pid),
    inner,
    family: new Set(family.map((one) => one.pid)),
  }
}

/** The first agent or MCP server that an orphan has started through wrappers only. */
function innerOf(fact: ProcessFact, { children }: ProcessScene): Inner | undefined {
  const { reached = [], ends = [] } = wrappedBy(fact, children) ?? {}
  const all = ends.map((end) => ({ end, known: recognise(end.argv, readLink(`/proc/${end.pid}/exe`)) }))
  const known = all.find((one) => one.known)?.known
  if (!known) return undefined
  return {
    known,
    streams: reached.map(({ pid }) => ({ pid, raw: rawStreamsOf(pid) })),
    beside: all.filter((one) => !one.known).map(({ end }) => end.command),
  }
}

function isEbbProcess({ argv, pid }: ProcessFact): boolean {
  return isEbbs(argv, environOf(pid) ?? [], readText(`/proc/${pid}/cgroup`) ?? '')
}

/**
 * Whether a process has a window. The kernel does not list the peer of a Unix socket, so this checks for what every client of a
 * display has: the address of the display in its environment, and a client library in its memory.
 */
function isOnDisplay({ pid, argv }: ProcessFact): boolean {
  if (argv.some((word) => word.startsWith('--headless') || word.startsWith('--type='))) return false
  const hasAddress = (environOf(pid) ?? []).some((entry) => /^(DISPLAY|WAYLAND_DISPLAY)=./.test(entry))
  return hasAddress && /\/lib(X11|xcb|wayland-client)[-.\w]*\.so/.test(readText(`/proc/${pid}/maps`) ?? '')
}
