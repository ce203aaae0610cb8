import type { ServerContext } from '@modelcontextprotocol/server'
import type { Control } from '../../control.ts'
import { noop } from '../../core/engine/race.ts'
import { isFinal } from '../../core/model/agent.ts'
import type { DeployPhase } from '../../tasks/types.ts'
import { type Asking, whoAsks } from './asking.ts'

/** Told to those who asked for it, and only what has really happened. */
export type Tell = (progress: number, total: number, message: string) => void

export function tellerOf({ mcpReq }: ServerContext): Tell | undefined {
  const { _meta: meta } = mcpReq
  const progressToken = meta?.progressToken
  if (progressToken === undefined) return undefined
  return (progress, total, message) =>
    void mcpReq.notify({ method: 'notifications/progress', params: { progressToken, progress, total, message } }).catch(noop)
}

const phases: Readonly<Record<DeployPhase, readonly [number, string]>> = {
  prepared: [1, 'Everything is checked; the agent is being launched.'],
  running: [2, 'The agent runs.'],
}

export function tellPhase(tell: Tell | undefined, phase: DeployPhase): void {
  const [progress, message] = phases[phase]
  tell?.(progress, Object.keys(phases).length, message)
}

export interface Closing {
  readonly taskId: string
  /** One agent, and with `cascade` those below it; without it all of the task. */
  readonly agentId?: string
  readonly cascade?: boolean
}

/** While agents are being closed: how many of them are gone, proven. Nobody waits for the count, least of all the kill (G12). */
export async function whileClosing<T>(
  control: Control,
  asking: Asking,
  closing: Closing,
  tell: Tell | undefined,
  close: () => Promise<T>,
): Promise<T> {
  if (!tell) return await close()
  const gone = new Set<string>()
  let meant: ReadonlySet<string> | undefined
  let isOver = false
  const report = (): void => {
    const total = meant?.size ?? 0
    const done = meant ? [...meant].filter((id) => gone.has(id)).length : 0
    if (total > 0 && !isOver) tell(done, total, `${done} of ${total} agents are gone, proven.`)
  }
  const leave = control.events.on('terminated', ({ agentId }) => {
    gone.add(agentId)
    if (meant?.has(agentId)) report()
  })
  void livingOf(control, asking, closing, gone).then((ids) => {
    meant = ids
    report()
  })
  try {
    return await close()
  } finally {
    isOver = true
    leave()
  }
}

/** Only for the count: what is wrong with the call is told by the call itself. Some may be gone since the close began. */
async function livingOf(
  { tasks }: Control,
  asking: Asking,
  { taskId, agentId, cascade }: Closing,
  gone: ReadonlySet<string>,
): Promise<ReadonlySet<string>> {
  const view = await tasks.status({ taskId, ...whoAsks(asking) }).catch(noop)
  const agents = view?.agents ?? []
  const chosen = new Set(agents.filter(({ id, name }) => agentId === undefined || agentId === id || agentId === name).map(({ id }) => id))
  // In the order of their deployment: a child comes after its parent.
  if (cascade) for (const { id, parentId } of agents) if (parentId !== undefined && chosen.has(parentId)) chosen.add(id)
  return new Set(agents.filter(({ id, status }) => chosen.has(id) && (!isFinal(status) || gone.has(id))).map(({ id }) => id))
}
