import type { Engine } from '../core/engine/api.ts'
import { noop, within } from '../core/engine/race.ts'
import type { Planned } from '../core/ports/kind.ts'
import { type ProcessLaunch, type TreeHandle, treeLabel } from '../core/ports/process.ts'
import type { Runtime } from '../core/ports/runtime.ts'

/**
 * Asks a program for its version. The program is launched like an agent: its processes and its temp folder are intents of a scope of their
 * own, so the sentinel and the recovery end them when this process is killed in between. Some programs unpack themselves into TMPDIR at each
 * start, and start further processes.
 */
export interface ProbeDeps extends Pick<Runtime, 'clock' | 'newId'> {
  readonly engine: Engine
  readonly plan: (scopeId: string, launch: ProcessLaunch) => readonly Planned[]
  readonly environment: Readonly<Record<string, string>>
  /** The path of a scope's temp folder. */
  readonly tempFolderOf: (scopeId: string) => string
  /** Reads the first bytes of a file. */
  readonly readStart: (path: string, bytes: number) => Promise<string>
}

/** The time that a version command gets. A program that has not printed its version by then probably does something else. */
const probeBudgetMs = 5_000
const maxBytes = 4_096
const prefix = 'probe-'

/** The output goes to a file, because a process that the program leaves behind could hold a pipe open. */
const script = 'exec "$0" "$@" >"$TMPDIR/output"'

/** Returns the first bytes that a command prints; undefined when it fails or takes too long. Afterwards nothing of it is left. */
export async function readVersion(argv: readonly string[], deps: ProbeDeps): Promise<string | undefined> {
  const { engine, plan, environment, newId, tempFolderOf } = deps
  const id = `${prefix}${newId()}`
  const planned = plan(id, {
    argv: ['/bin/sh', '-c', script, ...argv],
    env: environment,
    cwd: '/',
    output: 'ignore',
    stdin: 'ignore',
    hasTempFolder: true,
  })
  const scope = engine.openScope({ id, kind: 'request' })
  const handles = await engine.launch(scope, planned)
  try {
    return await firstOutput(handles.get(treeLabel), `${tempFolderOf(id)}/output`, deps)
  } finally {
    // Swallowed: the reaper repeats a close that fails, and the status shows what is left (G11).
    await engine.close(id, { trigger: 'completed', force: true, forget: true }, { isPart: true }).catch(noop)
  }
}

async function firstOutput({ exit }: TreeHandle, path: string, { clock, readStart }: ProbeDeps): Promise<string | undefined> {
  const ended = await within(clock, probeBudgetMs, exit)
  return !ended.timedOut && ended.value.code === 0 ? (await readStart(path, maxBytes)).trim() : undefined
}

/** True for a version query of this process, unless its close has failed: a scope of which something is left counts as not clean. */
export function isRunningProbe(engine: Engine, scopeId: string): boolean {
  return scopeId.startsWith(prefix) && engine.owns(scopeId) && engine.inspect(scopeId)?.report?.success !== false
}
