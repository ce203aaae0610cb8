import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { sentence } from '../../core/model/errors.ts'
import type { Clock } from '../../core/ports/clock.ts'
import type { Effects } from '../../core/ports/effects.ts'
import type { Findings, Leftover, LeftoverEnd, LeftoverKind, ProcessName } from '../judgement/leftover.ts'
import type { Leftovers } from '../leftovers-port.ts'
import { endFiles, findFolders } from './folders.ts'
import { sharedTable } from './proc-facts.ts'
import { endProcesses } from './process-end.ts'
import { findProcesses } from './processes.ts'
import { endSession, findSessions } from './sessions.ts'
import { findWorktrees } from './worktrees.ts'

/** The dependencies of the search for leftovers, and of ending them. */
export interface LeftoverDeps {
  readonly clock: Clock
  readonly effects: Effects
  readonly cwd: string
  readonly temp: string
  readonly environment: Readonly<Record<string, string>>
  readonly graceMs?: number
  /** Tests restrict the search to their own processes: every other process is neither a suspect nor an agent. */
  readonly only?: (pid: number) => boolean
}

interface SearchDeps extends LeftoverDeps {
  readonly readTable: ReturnType<typeof sharedTable>
}

const graceMs = 5_000
const killMs = 5_000

export function openLeftovers(given: LeftoverDeps): Leftovers {
  const deps = { ...given, readTable: sharedTable() }
  const find = (): Promise<Findings> => findAll(deps)
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
      // Folders come last: ending processes may still write to them, and processes that could not be ended may need them.
      const left = await search('files', async () => (folders.length === 0 ? [] : await findFolders(deps, await deps.readTable())))
      for (const one of folders) ended.push(await ending(left.leftovers)(one))
      return ended
    },
  }
}

async function findAll(deps: SearchDeps): Promise<Findings> {
  if (!existsSync('/proc/self/stat')) {
    const why = 'Leftovers of other agent runs were not searched for: this system has no /proc.'
    return { leftovers: [], unseen: [why] }
  }
  const { environment, temp, cwd, only } = deps
  const table = await deps.readTable()
  const sockets = join(environment.TMUX_TMPDIR || '/tmp', `tmux-${process.getuid?.() ?? 0}`)
  const processes = await search('processes', () => findProcesses({ table, only }))
  const ending = new Set(processes.leftovers.filter(({ fixes }) => fixes).flatMap((one) => one.processes.map(({ pid }) => pid)))
  const remaining = new Map([...table].filter(([pid]) => !ending.has(pid)))
  const searches = await Promise.all([
    processes,
    search('tmux sessions', () => findSessions({ directory: sockets, environment }, table)),
    search('files', () => findFolders({ temp, environment, only }, remaining)),
    search('worktrees', () => findWorktrees({ cwd, environment }, table)),
  ])
  return { leftovers: searches.flatMap(({ leftovers }) => leftovers), unseen: searches.flatMap(({ unseen }) => unseen) }
}

/** A search that fails does not affect the others. Its failure is reported, and nothing of its kind is ended. */
async function search(what: string, find: () => Promise<readonly Leftover[] | Findings>): Promise<Findings> {
  try {
    const found = await find()
    return 'leftovers' in found ? found : { leftovers: found, unseen: [] }
  } catch (error) {
    return { leftovers: [], unseen: [`The search for ${what} failed: ${sentence(error)}`] }
  }
}

const isProcess: ReadonlySet<LeftoverKind> = new Set(['agent', 'tool', 'mcp-server'])

interface EndingDeps extends SearchDeps {
  readonly spared: readonly ProcessName[]
}

async function endOne(shown: Leftover, now: Leftover | undefined, deps: EndingDeps): Promise<LeftoverEnd> {
  const { id, what } = shown
  if (!now) return { id, what, outcome: 'changed', steps: [], says: 'It has ended or is no longer a leftover; nothing was done.' }
  if (!now.fixes) return { id, what, outcome: 'changed', steps: [], says: `It may be in use now; nothing was done. ${now.evidence.at(-1)}` }
  return { id, what, ...(await ended(shown, now, deps)) }
}

async function ended(shown: Leftover, now: Leftover, deps: EndingDeps): Promise<Pick<LeftoverEnd, 'outcome' | 'steps' | 'says'>> {
  try {
    if (isProcess.has(now.kind)) return await endProcesses(now.processes, { ...deps, graceMs: deps.graceMs ?? graceMs, killMs })
    if (now.kind === 'tmux-session') return await endSession(now, { directory: '', environment: deps.environment }, deps)
    const paths = now.paths.filter((path) => shown.paths.includes(path))
    return await endFiles(now, paths, deps.effects)
  } catch (error) {
    return { outcome: 'left', steps: [], says: sentence(error) }
  }
}
