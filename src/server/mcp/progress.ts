import type { ServerContext } from '@modelcontextprotocol/server'
import type { Control } from '../../control.ts'
import { noop } from '../../core/engine/race.ts'
import { isFinal } from '../../core/model/agent.ts'
import type { DeployPhase } from '../../tasks/types.ts'
import { type Asking, callerFields } from './asking.ts'

/** Sends an MCP progress notification to a client that gave a progress token. */
export type NotifyProgress = (progress: number, total: number, message: string) => void

export function progressNotifier({ mcpReq }: ServerContext): NotifyProgress | undefined {
  const { _meta: meta } = mcpReq
  const progressToken = meta?.progressToken
  if (progressToken === undefined) return undefined
  // The client may be gone. The tool call then continues without notifications.
  return (progress, total, message) =>
    void mcpReq.notify({ method: 'notifications/progress', params: { progressToken, progress, total, message } }).catch(noop)
}

const phases: Readonly<Record<DeployPhase, readonly [number, string]>> = {
  prepared: [1, 'The deployment is checked; the agent is being launched.'],
  running: [2, 'The agent is running.'],
}

export function notifyPhase(notify: NotifyProgress | undefined, phase: DeployPhase): void {
  const [progress, message] = phases[phase]
  notify?.(progress, Object.keys(phases).length, message)
}

export interface Closing {
  readonly taskId: string
  /** The agent to close, with `cascade` also its descendants. Absent: all agents of the task. */
  readonly agentId?: string
  readonly cascade?: boolean
}

/** Runs a close, and notifies the client how many of the agents are proven gone. The close does not wait for the count (G12). */
export async function whileClosing<T>(
  control: Control,
  asking: Asking,
  closing: Closing,
  notify: NotifyProgress | undefined,
  close: () => Promise<T>,
): Promise<T> {
  if (!notify) return await close()
  const gone = new Set<string>()
  let targets: ReadonlySet<string> | undefined
  let isClosed = false
  const report = (): void => {
    const total = targets?.size ?? 0
    const done = targets ? [...targets].filter((id) => gone.has(id)).length : 0
    if (total > 0 && !isClosed) notify(done, total, `${done} of ${total} agents are gone, proven.`)
  }
  const unsubscribe = control.events.on('terminated', ({ agentId }) => {
    gone.add(agentId)
    if (targets?.has(agentId)) report()
  })
  void targetsOf(control, asking, closing, gone).then((ids) => {
    targets = ids
    report()
  })
  try {
    return await close()
  } finally {
    isClosed = true
    unsubscribe()
  }
}

/**
 * The agents that a close ends. They are only counted, because the close itself reports its errors. Some agents may be gone since
 * the close began.
 */
async function targetsOf(
  { tasks }: Control,
  asking: Asking,
  { taskId, agentId, cascade }: Closing,
  gone: ReadonlySet<string>,
): Promise<ReadonlySet<string>> {
  const view = await tasks.status({ taskId, ...callerFields(asking) }).catch(noop)
  const agents = view?.agents ?? []
  const chosen = new Set(agents.filter(({ id, name }) => agentId === undefined || agentId === id || agentId === name).map(({ id }) => id))
  // Agents are listed in the order of their deployment, so a parent comes before its children.
  if (cascade) for (const { id, parentId } of agents) if (parentId !== undefined && chosen.has(parentId)) chosen.add(id)
  return new Set(agents.filter(({ id, status }) => chosen.has(id) && (!isFinal(status) || gone.has(id))).map(({ id }) => id))
}
