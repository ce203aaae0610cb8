import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Control } from '../../src/control.ts'
import type { Agent } from '../../src/core/model/agent.ts'
import { logLabel, reportStreams } from '../../src/core/ports/agent-log.ts'
import { temporaryHome } from './home.ts'
import { openSupervisor, type SupervisorOptions, type TestSupervisor } from './supervisor.ts'

/** Agents with files in a workspace, on a control plane inside the test's own process. */
export interface WorkspaceAgents extends AsyncDisposable {
  readonly supervisor: TestSupervisor
  readonly control: Control
  readonly base: string
  readonly workspace: string
  /** Launches an agent that runs a shell script. Text in `reports` is appended to its progress and findings logs. */
  launch(name: string, script: string, reports?: Readonly<Partial<Record<(typeof reportStreams)[number], string>>>): Promise<Agent>
  /** The archived contents of one of the agent's streams. */
  archived(file: string): string
  ended(id: string): Promise<Agent>
}

export async function openWorkspaceAgents(options: SupervisorOptions = {}): Promise<WorkspaceAgents> {
  const base = temporaryHome()
  const path = join('.agent-workspace', 'TASK-1')
  const workspace = join(base, path)
  mkdirSync(workspace, { recursive: true, mode: 0o700 })
  const supervisor = await openSupervisor({ watched: false, ...options })
  const control = await supervisor.control()
  const launch: WorkspaceAgents['launch'] = async (name, script, reports = {}) => {
    const { agent } = await control.agents.launch({
      type: 'command',
      prompt: 'a prompt',
      namespace: 'default',
      name,
      workspace: { base, path },
      configuration: { command: ['/bin/sh', '-c', script] },
    })
    for (const stream of reportStreams) {
      const line = reports[stream]
      if (line !== undefined) supervisor.engine.inspect(agent.id)?.handles.get(logLabel(stream)).append?.(line)
    }
    return agent
  }
  return {
    supervisor,
    control,
    base,
    workspace,
    launch,
    archived: (file) => join(workspace, 'archive', file),
    ended: async (id) => {
      const findEnded = async (): Promise<Agent | undefined> => {
        const { agent } = await control.agents.get(id)
        return agent.completedAt === undefined ? undefined : agent
      }
      const agent = await control.waiting.forEnd(id, 30_000, findEnded)
      if (!agent) throw new Error(`The agent ${id} did not end.`)
      return agent
    },
    [Symbol.asyncDispose]: async () => {
      await supervisor.engine.close(supervisor.engine.hostScopeId, { trigger: 'process-exit', force: true, deadlineMs: 5_000 })
      await control.close()
      await supervisor[Symbol.asyncDispose]()
    },
  }
}
