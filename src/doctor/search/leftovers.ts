import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { sentence } from '../../core/model/errors.ts'
import type { Clock } from '../../core/ports/clock.ts'
import type { Findings, Leftover, LeftoverEnd, LeftoverKind, ProcessName } from '../judgement/leftover.ts'
import type { Leftovers } from '../leftovers-port.ts'
import { endFiles, findFolders } from './folders.ts'
import { sharedTable } from './proc-facts.ts'
import { endProcesses } from './process-end.ts'
import { findProcesses } from './processes.ts'
import { endSession, findSessions } from './sessions.ts'
import { findWorktrees } from './worktrees.ts'

/** The doctor's looks at this machine, and the ends it may put to what it found. */
export interface LeftoverDeps {
  readonly clock: Clock
  readonly cwd: string
  readonly temp: string
  readonly environment: Readonly<Record<string, string>>
  readonly graceMs?: number
  /** For tests, beside which other people's processes run: no other process is ever a suspect, or an agent. */
  readonly only?: (pid: number) => boolean
}

interface LookingDeps extends LeftoverDeps {
  readonly look: ReturnType<typeof sharedTable>
}

const graceMs = 5_000
const killMs = 5_000

export function openLeftovers(given: LeftoverDeps): Leftovers {
  const deps = { ...given, look: sharedTable() }
  const find = (): Promise<Findings> => lookAround(deps)
  return {
    find,
    end: async (shown) => {
      const now = (await find()).leftovers
      const spared = now.filter(({ fixes }) => !fixes).flatMap(({ processes }) => processes)
      const chosen = shown.filter(({ fixes }) => fixes)
      const ending = (seen: readonly Leftover[]) => {
        const byId = new Map(seen.map((one) => [one.id, one]))
        return (one: Leftover): Promise<LeftoverEnd> => endOne(one, byId.get(one.id), { ...deps, spared })
      }
      const ended = await Promise.all(chosen.filter(({ kind }) => kind !== 'folder').map(ending(now)))
      const folders = chosen.filter(({ kind }) => kind === 'folder')
      // What the processes had in their folders is written by then, and whose processes are not gone may need them.
      const left = await tried('folders', async () => (folders.length === 0 ? [] : await findFolders(deps, await deps.look())))
      for (const one of folders) ended.push(await ending(left.leftovers)(one))
      return ended
    },
  }
}

async function lookAround(deps: LookingDeps): Promise<Findings> {
  if (!existsSync('/proc/self/stat')) {
    const why = 'Leftovers of other agent runs are looked for in /proc, which this system does not have.'
    return { leftovers: [], unseen: [why] }
  }
  const { environment, temp, cwd, only } = deps
  const table = await deps.look()
  const sockets = join(environment.TMUX_TMPDIR || '/tmp', `tmux-${process.getuid?.() ?? 0}`)
  const processes = await tried('processes', () => findProcesses({ table, only }))
  const going = new Set(processes.leftovers.filter(({ fixes }) => fixes).flatMap((one) => one.processes.map(({ pid }) => pid)))
  const staying = new Map([...table].filter(([pid]) => !going.has(pid)))
  const looks = await Promise.all([
    processes,
    tried('tmux sessions', () => findSessions({ directory: sockets, environment }, table)),
    tried('folders', () => findFolders({ temp, environment, only }, staying)),
    tried('worktrees', () => findWorktrees({ cwd, environment }, table)),
  ])
  return { leftovers: looks.flatMap(({ leftovers }) => leftovers), unseen: looks.flatMap(({ unseen }) => unseen) }
}

/** One look that fails takes no other with it; what was not seen is said, and never ended. */
async function tried(what: string, find: () => Promise<readonly Leftover[] | Findings>): Promise<Findings> {
  try {
    const found = await find()
    return 'leftovers' in found ? found : { leftovers: found, unseen: [] }
  } catch (error) {
    return { leftovers: [], unseen: [`The ${what} could not be looked at: ${sentence(error)}`] }
  }
}

const isProcess: ReadonlySet<LeftoverKind> = new Set(['agent', 'tool', 'mcp-server'])

interface EndingDeps extends LookingDeps {
  readonly spared: readonly ProcessName[]
}

async function endOne(shown: Leftover, now: Leftover | undefined, deps: EndingDeps): Promise<LeftoverEnd> {
  const { id, what } = shown
  if (!now) return { id, what, outcome: 'changed', steps: [], says: 'It is gone, or is no leftover any more; nothing was done.' }
  if (!now.fixes)
    return { id, what, outcome: 'changed', steps: [], says: `It may be in use by now; nothing was done. ${now.evidence.at(-1)}` }
  return { id, what, ...(await ended(shown, now, deps)) }
}

async function ended(shown: Leftover, now: Leftover, deps: EndingDeps): Promise<Pick<LeftoverEnd, 'outcome' | 'steps' | 'says'>> {
  try {
    if (isProcess.has(now.kind)) return await endProcesses(now.processes, { ...deps, graceMs: deps.graceMs ?? graceMs, killMs })
    if (now.kind === 'tmux-session') return await endSession(now, { directory: '', environment: deps.environment })
    const paths = now.paths.filter((path) => shown.paths.includes(path))
    return await endFiles(now, paths)
  } catch (error) {
    return { outcome: 'left', steps: [], says: sentence(error) }
  }
}
