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
import { isOnDisplay } from './display.ts'
import { type OpenFiles, openFiles } from './open-files.ts'
import { environOf, readLink, readText, seesAllProcesses } from './proc-facts.ts'
import { Sockets } from './sockets.ts'
import { pipesOf, type RawStreams, rawStreamsOf, resolvedStreams } from './streams.ts'

/** Looks for processes that agent runs have left. Judges nothing itself: it brings the facts together for `judgeProcess`. */
export interface ProcessLook {
  readonly table: ReadonlyMap<number, ProcessFact>
  /** A test's own processes: nobody else is a suspect, or an agent that may own one. */
  readonly only: ((pid: number) => boolean) | undefined
}

/** Whoever only a leftover listens to is not listened to; that may take a few rounds to find out. */
const mostRounds = 4

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

export async function findProcesses({ table, only }: ProcessLook): Promise<readonly Leftover[]> {
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
    .flatMap((fact) => closely(fact, scene, sockets) ?? [])
  const wanted = new Set(
    suspects.flatMap(({ streams, inner }) => [streams, ...(inner?.streams ?? []).map(({ raw }) => raw)].flatMap(pipesOf)),
  )
  const open = wanted.size === 0 ? undefined : await openFiles(table, wanted, [])
  return judged(suspects, scene, open, sockets)
}

function judged(suspects: readonly Suspect[], scene: ProcessScene, open: OpenFiles | undefined, sockets: Sockets): readonly Leftover[] {
  let found: readonly Leftover[] = []
  let going: ReadonlySet<number> = new Set()
  for (let round = 0; round < mostRounds; round++) {
    const agents = scene.agents.filter(({ pid }) => !going.has(pid))
    found = suspects.flatMap((suspect) => {
      const { fact, detail, family } = suspect
      const around = { scene, open, sockets, going }
      const streams = resolvedStreams(suspect.streams, { pid: fact.pid, family }, around)
      const inner = suspect.inner && {
        ...suspect.inner,
        streams: suspect.inner.streams.map(({ pid, raw }) => resolvedStreams(raw, { pid, family }, around)),
      }
      return judgeProcess(fact, { ...detail, ...streams, inner }, { ...scene, agents }) ?? []
    })
    const next = new Set(found.filter(({ fixes }) => fixes).flatMap(({ processes }) => processes.map(({ pid }) => pid)))
    if (next.size === going.size) break
    going = next
  }
  return found
}

/** This user's: another's own nothing of ours. */
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

/** What such a server has started to work with listens for it alone. */
const browsers = /^(chrom.*|headless_shell|firefox.*|Web Content|WebKit.*|msedge)$/

function closely(fact: ProcessFact, scene: ProcessScene, sockets: Sockets): Suspect | undefined {
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

/** The first agent or MCP server that an orphan has started through nothing but wrappers. */
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
