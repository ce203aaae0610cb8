import type { AgentEnd } from '../../core/ports/agents.ts'
import { type Database, toJson } from './database.ts'
import { forgetTask } from './tasks.ts'

/** What the transaction that closes scopes does to the rows of their agents. */

const isOver = "status IN ('completed', 'failed', 'terminated')"

export function endAgents(db: Database, agents: { readonly ended: readonly AgentEnd[]; readonly stuckIds: readonly string[] }): void {
  for (const end of agents.ended) {
    db.run(
      `UPDATE agent SET status = ?, error = COALESCE(?, error), exit_code = COALESCE(?, exit_code), signal = COALESCE(?, signal),
         completed_at = ?, report = ? WHERE id = ? AND NOT ${isOver}`,
      end.status,
      toJson(end.error),
      end.exit?.code ?? null,
      end.exit?.signal ?? null,
      end.completedAt,
      JSON.stringify(end.report),
      end.agentId,
    )
  }
  for (const id of agents.stuckIds) db.run(`UPDATE agent SET status = 'stuck' WHERE id = ? AND NOT ${isOver}`, id)
}

/** The row that carries a scope's id, with its messages; and the name of a request or task. False where there is no such row. */
export function forgetAgent(db: Database, scopeId: string): boolean {
  const isKnown = Number(db.run('DELETE FROM agent WHERE id = ?', scopeId).changes) > 0
  forgetTask(db, scopeId)
  db.run('DELETE FROM owner WHERE scope_id = ?', scopeId)
  return isKnown
}
