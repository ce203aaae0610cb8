import type { AgentEnd } from '../../core/ports/agents.ts'
import { type Database, toJson } from './database.ts'
import { forgetTask } from './tasks.ts'

/** Updates the rows of agents in the transaction that closes their scopes. */

const hasEnded = "status IN ('completed', 'failed', 'terminated')"

export function endAgents(db: Database, agents: { readonly ended: readonly AgentEnd[]; readonly stuckIds: readonly string[] }): void {
  for (const end of agents.ended) {
    db.run(
      `UPDATE agent SET status = ?, error = COALESCE(?, error), exit_code = COALESCE(?, exit_code), signal = COALESCE(?, signal),
         completed_at = ?, report = ? WHERE id = ? AND NOT ${hasEnded}`,
      end.status,
      toJson(end.error),
      end.exit?.code ?? null,
      end.exit?.signal ?? null,
      end.completedAt,
      JSON.stringify(end.report),
      end.agentId,
    )
  }
  for (const id of agents.stuckIds) db.run(`UPDATE agent SET status = 'stuck' WHERE id = ? AND NOT ${hasEnded}`, id)
}

/**
 * Deletes the agent with the id of a scope, with its messages, and the request or task of that scope. Returns whether there was such an
 * agent.
 */
export function forgetAgent(db: Database, scopeId: string): boolean {
  const isKnown = Number(db.run('DELETE FROM agent WHERE id = ?', scopeId).changes) > 0
  forgetTask(db, scopeId)
  db.run('DELETE FROM owner WHERE scope_id = ?', scopeId)
  return isKnown
}
