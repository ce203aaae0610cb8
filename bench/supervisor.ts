import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { loadConfig } from '../src/config/config.ts'
import type { ScopeView } from '../src/core/engine/api.ts'
import { type TreeHandle, treeLabel } from '../src/core/ports/process.ts'
import { compose } from '../src/main.ts'
import type { Supervisor } from '../src/supervisor.ts'

/** Runs `use` with a real supervisor on a temporary home. */
export async function withSupervisor<T>(use: (supervisor: Supervisor) => Promise<T>): Promise<T> {
  const home = mkdtempSync(join(tmpdir(), 'ebb-bench-'))
  const config = loadConfig({ flags: new Map([['home', home]]) })
  const supervisor = await compose(config)
  await supervisor.engine.begin()
  try {
    return await use(supervisor)
  } finally {
    await supervisor.engine.shutDown({ trigger: 'process-exit', force: true })
    await supervisor.close()
    rmSync(home, { recursive: true, force: true })
  }
}

export interface Launched {
  readonly scope: ScopeView
  readonly tree: TreeHandle
}

export async function launch({ engine, newId, plan }: Supervisor, argv: readonly string[]): Promise<Launched> {
  const scope = engine.openScope({ id: newId(), kind: 'agent' })
  const launch = { argv, env: { PATH: '/usr/bin:/bin' }, cwd: '/', output: 'inherit', stdin: 'ignore' } as const
  const handles = await engine.launch(scope, plan(scope.id, launch))
  return { scope, tree: handles.get(treeLabel) }
}
