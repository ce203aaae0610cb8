import type { Agent } from '../api/shapes.ts'
import { oneLine, shortId } from '../pieces/format.ts'

/** The display name of an agent: the name that the user gave it, else the beginning of its prompt, else its name in Ebb or its id. */
export function nameOf({ id, name, session }: Agent, most = 120): string {
  const { conversationName = '' } = session.configuration
  return oneLine(conversationName, most) || oneLine(session.prompt, most) || name || `agent ${shortId(id)}`
}
