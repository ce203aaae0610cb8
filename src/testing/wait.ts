import type { AgentStatus, FinalStatus } from '../core/model/agent.ts'
import { pollUntil } from './race.ts'
import { clientOf, messageOf, type Target } from './request.ts'
import { hasEnded } from './world.ts'

export type TerminalState = FinalStatus | 'deleted'

/** The longest wait of one request, because the request object of a test may time out after 30 s. */
const sliceMs = 20_000

/** The time that a request may take beyond the server's wait, for the transfer of the answer. */
const answerMs = 10_000

/**
 * Resolves when the server reports that the agent is verified to have ended, or is deleted. Throws when that takes too long, and at once
 * when the agent is stuck, because waiting does not end a stuck agent.
 */
export async function waitForAgentTerminalState(target: Target, agentId: string, timeoutMs = 60_000): Promise<TerminalState> {
  const client = clientOf(target)
  const untilMs = performance.now() + timeoutMs
  let last: AgentStatus | undefined
  // The requests have pauses between them, because a server without support for `wait` answers at once and would be overloaded.
  const ended = await pollUntil(timeoutMs, async (): Promise<TerminalState | undefined> => {
    const waitMs = Math.round(Math.max(0, Math.min(sliceMs, untilMs - performance.now())))
    const { isOk, status, body } = await client.call('get', `/api/agents/${agentId}/status?wait=${waitMs}`, {
      timeoutMs: waitMs + answerMs,
    })
    if (status === 404) return 'deleted'
    if (!isOk) throw new Error(`The status of agent ${agentId} was answered with ${status}: ${messageOf(body)}`)
    last = (body as { readonly status: AgentStatus }).status
    if (last === 'stuck')
      throw new Error(`Agent ${agentId} is stuck: not everything of it could be released; GET /api/agents/${agentId}/resources says what.`)
    return hasEnded(last) ? (last as FinalStatus) : undefined
  })
  if (ended === undefined)
    throw new Error(`Agent ${agentId} is still ${last ?? 'there'} after ${timeoutMs} ms; stop it, or wait longer with timeoutMs.`)
  return ended
}
