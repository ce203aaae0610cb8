import { loadConfig } from '../../src/config/config.ts'
import type { ScopeView } from '../../src/core/engine/api.ts'
import { type LogHandle, logLabels } from '../../src/core/ports/agent-log.ts'
import type { Handles } from '../../src/core/ports/handles.ts'
import type { Planned } from '../../src/core/ports/kind.ts'
import { type ProcessLaunch, type TreeHandle, treeLabel } from '../../src/core/ports/process.ts'
import { compose } from '../../src/main.ts'
import type { Composition, Supervisor } from '../../src/supervisor.ts'
import { temporaryHome } from './home.ts'

/** The engine as the command line composes it, inside the test's own process, on a temporary home. */

export interface SupervisorOptions extends Composition {
  readonly home?: string
  readonly flags?: Readonly<Record<string, string>>
}

export interface TestSupervisor extends Supervisor, AsyncDisposable {
  /** Launches a plan in a new scope. Returns the scope, and the handles by label. */
  launch(plan: (scopeId: string) => readonly Planned[]): Promise<{ readonly scope: ScopeView; readonly handles: Handles }>
  run(argv: readonly string[], more?: Partial<ProcessLaunch>): Promise<Run>
}

/** A launched command whose two streams go to logs. */
export interface Run {
  readonly scope: ScopeView
  readonly tree: TreeHandle
  readonly stdout: LogHandle
  readonly stderr: LogHandle
}

export async function openSupervisor(options: SupervisorOptions = {}): Promise<TestSupervisor> {
  const { home = temporaryHome(), flags = {}, ...composition } = options
  const config = loadConfig({ flags: new Map(Object.entries({ home, logLevel: 'silent', ...flags })) })
  const supervisor = await compose(config, composition)
  const { engine } = supervisor
  const launch: TestSupervisor['launch'] = async (plan) => {
    const scope = engine.openScope({ id: supervisor.newId(), kind: 'agent' })
    return { scope, handles: await engine.launch(scope, plan(scope.id)) }
  }
  return Object.assign(supervisor, {
    launch,
    run: async (argv: readonly string[], more: Partial<ProcessLaunch> = {}): Promise<Run> => {
      const command: ProcessLaunch = { argv, env: config.environment, cwd: home, output: 'logs', stdin: 'ignore', ...more }
      const { scope, handles } = await launch((scopeId) => supervisor.plan(scopeId, command))
      return { scope, tree: handles.get(treeLabel), stdout: handles.get(logLabels[0]), stderr: handles.get(logLabels[1]) }
    },
    [Symbol.asyncDispose]: async (): Promise<void> => {
      const report = await engine.shutDown({ trigger: 'process-exit', force: true, deadlineMs: 5_000 })
      await supervisor.close()
      if (!report.success) throw new Error(`The supervisor of the test could not shut down: ${report.errors.join('; ')}`)
    },
  })
}
