import type { PlacementParts } from '../definition.ts'
import { RemoteAgentKind, type RunnersPlace } from './kind.ts'
import type { Runner, RunnersTask } from './ports.ts'
import { HttpRunner, HttpRunnerQueries } from './runner.ts'

/** What agents in ECS tasks need in addition to the address of their runner. */
export interface TaskRunners {
  readonly token: string | undefined
  placeOf(task: RunnersTask): RunnersPlace
}

/** The agents at runners: one kind, shared by all placements that use runners. Each placement adds its own runners. */
export class RunnerAgents {
  readonly kind: RemoteAgentKind
  #runner: { readonly url: string; readonly token: string | undefined } | undefined
  #tasks: TaskRunners | undefined

  constructor({ clock, log, effects, limitBytes, wrap }: PlacementParts) {
    this.kind = new RemoteAgentKind({
      effects,
      clock,
      log,
      runner: wrap<Runner>('runner', new HttpRunner(clock)),
      queries: new HttpRunnerQueries(clock),
      limitBytes,
      tokenFor: (spec) => ('url' in spec ? this.#tokenAt(spec.url) : this.#tasks?.token),
      placeOf: (spec) => ('task' in spec && spec.task ? this.#tasks?.placeOf(spec.task) : undefined),
    })
  }

  useRunner(url: string, token: string | undefined): void {
    this.#runner = { url, token }
  }

  useTasks(tasks: TaskRunners): void {
    this.#tasks = tasks
  }

  /** A token is sent only to the runner that it was configured for, never to an address that an older record names. */
  #tokenAt(url: string): string | undefined {
    const token = this.#runner?.token
    if (token === undefined || originOf(this.#runner?.url) === originOf(url)) return token
    throw new Error(
      `The runner of the agent is at ${url}, which is not the current remote.url, so remote.token is not sent there; set both as they were at the launch.`,
    )
  }
}

const opened = new WeakMap<PlacementParts, RunnerAgents>()

/** Returns the agents at runners. Placements that are opened with the same dependencies share one instance. */
export function runnerAgentsOf(parts: PlacementParts): RunnerAgents {
  const agents = opened.get(parts) ?? new RunnerAgents(parts)
  opened.set(parts, agents)
  return agents
}

function originOf(url: string | undefined): string | undefined {
  return url === undefined || !URL.canParse(url) ? undefined : new URL(url).origin
}
