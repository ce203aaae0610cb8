import type { Agent } from '../api/shapes.ts'
import { oneLine, shortId } from '../pieces/format.ts'

/** What a person calls an agent: the name they gave it, else how its prompt begins, else what Ebb calls it. */
export function nameOf({ id, name, session }: Agent, most = 120): string {
  const { conversationName = '' } = session.configuration
  return oneLine(conversationName, most) || oneLine(session.prompt, most) || name || `agent ${shortId(id)}`
}
