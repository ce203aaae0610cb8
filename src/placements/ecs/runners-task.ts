import { scopeOfResource } from '../../core/model/identity.ts'
import { absent, type Presence, present, unsettled } from '../../core/model/resource.ts'
import type { Ctx } from '../../core/ports/kind.ts'
import type { RunnersTask } from '../remote/ports.ts'
import type { Aws, AwsQueries, TaskSeen } from './aws.ts'
import { isOfScope } from './mark.ts'
import { Settling } from './settling.ts'
import { clusterOf, findRunning, findStopping } from './task-finder.ts'
import { type AwsTimes, stopPatienceMs } from './times.ts'

/**
 * The ECS task in which a runner runs. It is observed, and stopped, when the runner itself does not answer: the end of the task is the end
 * of the agent in it. It is found by its ARN, or by its tags when only the scope of the agent is known.
 */

export interface RunnersTaskDeps {
  readonly aws: Aws
  readonly queries: AwsQueries
  readonly times: AwsTimes
  readonly installation: string
}

/** An agent whose runner does not answer. */
interface LostAgent {
  readonly resourceId: string
  readonly detail: { readonly taskArn?: string } | undefined
}

export interface TaskOfRunner {
  readonly patienceMs: number
  observe(agent: LostAgent, ctx: Ctx): Promise<Presence>
  end(agent: LostAgent, ctx: Ctx): Promise<void>
}

export class RunnersTasks {
  readonly #deps: RunnersTaskDeps
  readonly #settling: Settling

  constructor(deps: RunnersTaskDeps) {
    this.#deps = deps
    this.#settling = new Settling(deps.times.settleMs)
  }

  placeOf(task: RunnersTask): TaskOfRunner {
    return {
      patienceMs: stopPatienceMs,
      observe: (agent, ctx) => this.#observe(task, agent, ctx),
      end: (agent, ctx) => this.#end(task, agent, ctx),
    }
  }

  async #observe(task: RunnersTask, agent: LostAgent, ctx: Ctx): Promise<Presence> {
    const { resourceId } = agent
    const found = await this.#find(task, agent, ctx)
    if (found.length > 0) this.#settling.seen(resourceId)
    const alive = found.find(({ status }) => status !== 'STOPPED')
    if (alive) return present(`its runner does not answer, and the runner's task ${alive.arn} is ${alive.status}`)
    const gone = (method: string): Presence => absent({ method, strength: 'api', at: ctx.clock.wall() })
    if (found.length > 0) return gone('DescribeTasks: the task of its runner is STOPPED')
    if (this.#settling.missing(resourceId, ctx.clock).isLong) return gone('ECS has no task with the tags of the scope')
    return unsettled('The runner does not answer, and ECS does not show its task, which may be a delay; it is observed again.')
  }

  /** Stops the task, because its runner cannot be called to stop the agent. */
  async #end(task: RunnersTask, agent: LostAgent, ctx: Ctx): Promise<void> {
    for (const { arn, status } of await this.#find(task, agent, ctx))
      if (status !== 'STOPPED') await this.#deps.aws.stopTask({ ...clusterOf(task), arn }, 'ebb: its runner does not answer', ctx)
  }

  async #find(task: RunnersTask, { resourceId, detail }: LostAgent, ctx: Ctx): Promise<readonly TaskSeen[]> {
    const { queries, installation } = this.#deps
    const scope = scopeOfResource(resourceId)
    const isOurs = ({ tags }: TaskSeen): boolean => isOfScope(installation, scope, tags)
    const arn = detail?.taskArn
    if (arn !== undefined) return (await queries.describeTasks(clusterOf(task), [arn], ctx)).tasks.filter(isOurs)
    const running = (await findRunning(queries, task, new Set([scope]), ctx)).filter(isOurs)
    return running.length > 0 ? running : (await findStopping(queries, task, ctx)).filter(isOurs)
  }
}
