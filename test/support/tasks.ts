import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Control } from '../../src/control.ts'
import type { Task } from '../../src/core/model/task.ts'
import type { Tasks } from '../../src/tasks/tasks.ts'
import type { Callback, Caller, CreateTask, DeployAgent, Deployed } from '../../src/tasks/types.ts'
import { nodeProgram, root, temporaryHome } from './home.ts'
import { openSupervisor, type SupervisorOptions, type TestSupervisor } from './supervisor.ts'

/** Tasks on a real engine with real processes, in a folder of the test's own. */
export interface TaskBench extends AsyncDisposable {
  readonly supervisor: TestSupervisor
  readonly control: Control
  readonly tasks: Tasks
  readonly base: string
  create(more?: Partial<CreateTask>): Promise<Task>
  /** Deploys an agent that waits, unless `more` has another command. */
  deploy(task: Task, more?: Partial<DeployAgent>): Promise<Deployed>
  /** All paths below the base folder. */
  files(): readonly string[]
}

export const orchestrator: Caller = 'orchestrator'

export const as = ({ agent }: Deployed): Caller => ({ agentId: agent.id })

/** An address for agents that need a callback URL. No server listens there. */
export const listens = (): Callback => ({ url: 'http://127.0.0.1:4400', command: '/opt/ebb/bin/ebb' })

/** The command of an agent that only waits. */
export const waits = ['sleep', '1000']

export async function openTasks({
  base = temporaryHome(),
  ...options
}: SupervisorOptions & { readonly base?: string } = {}): Promise<TaskBench> {
  // The supervisor has no sentinel: only tests that kill the supervisor need one.
  const supervisor = await openSupervisor({ watched: false, ...options })
  const control = await supervisor.control()
  const { tasks } = control
  return {
    supervisor,
    control,
    tasks,
    base,
    create: (more = {}) =>
      tasks.create({ namespace: 'default', description: 'Mend the fence', priority: 'P2', base, caller: orchestrator, ...more }),
    deploy: (task, more = {}) =>
      tasks.deploy({
        taskId: task.id,
        agentType: 'builder',
        prompt: 'Do your part.',
        parent: 'orchestrator',
        provider: 'command',
        placement: 'process',
        command: waits,
        caller: orchestrator,
        ...more,
      }),
    files: () => (readdirSync(base, { recursive: true }) as string[]).toSorted(),
    [Symbol.asyncDispose]: async () => {
      await supervisor[Symbol.asyncDispose]()
      await control.close()
    },
  }
}

export interface Bereft {
  readonly task: Task
  readonly agents: readonly string[]
  /** The token of the first agent. */
  readonly token: string
}

/**
 * Deploys agents of a task under another supervisor and kills that supervisor when they have reported. The agent called `mute` cannot
 * report; it has ended.
 */
export async function deployAndDie(home: string, base: string, placement: string, prompts = ['one', 'two']): Promise<Bereft> {
  const program = join(root, 'test', 'fixtures', 'deploys-agents.ts')
  const child = spawn(nodeProgram, ['--disable-warning=ExperimentalWarning', program, home, base, placement, ...prompts], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const gone = once(child, 'exit')
  try {
    for await (const line of createInterface({ input: child.stdout })) return JSON.parse(line) as Bereft
    throw new Error('The supervisor ended before it had deployed its agents.')
  } finally {
    child.kill('SIGKILL')
    await gone
  }
}
