/** Ids of agents whose deletion event was received. Requests about them would be answered with 404. */

const deleted = new Set<string>()
const mostRemembered = 10_000

export function noteDeleted(agentId: string): void {
  deleted.add(agentId)
  for (const oldest of deleted) {
    if (deleted.size <= mostRemembered) return
    deleted.delete(oldest)
  }
}

export function wasDeleted(agentId: string): boolean {
  return deleted.has(agentId)
}
