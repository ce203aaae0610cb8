/** What an agent sent, whatever API it speaks. */
export interface Conversation {
  readonly model: string
  /** What the person asked for last, without what the agent wraps around it. */
  readonly prompt: string
  readonly system: string
  readonly tools: readonly OfferedTool[]
  readonly toolResults: readonly string[]
  /** How often the model has spoken since the prompt. */
  readonly turn: number
  readonly isStreaming: boolean
  /** Is a stream one JSON array, instead of events? */
  readonly isArray?: boolean
  /** Does the client ask that a stream tells how many tokens it had? Where that must be asked for. */
  readonly wantsUsage?: boolean
  /** The JSON schema that the answer must have, where one is asked for. */
  readonly schema?: Json
}

export interface OfferedTool {
  /** As a person would call it. */
  readonly name: string
  /** As the API wants it called, where that is another one. */
  readonly wire?: Json
}

export type Json = Readonly<Record<string, unknown>>

/** One entry of a conversation, in the order in which they came. */
export interface Entry {
  readonly by: 'person' | 'model' | 'tool' | 'other'
  readonly text: string
}

/** The last prompt, how often the model has spoken since, and what the tools answered to its last words. */
export function sinceLastPrompt(entries: readonly Entry[]): Pick<Conversation, 'prompt' | 'turn' | 'toolResults'> {
  const asked = entries.map(({ by, text }) => (by === 'person' ? unwrapped(text) : ''))
  const last = asked.findLastIndex((text) => text !== '')
  const since = entries.slice(last + 1).filter(({ by }) => by === 'model' || by === 'tool')
  const turn = since.filter(({ by }, index) => by === 'model' && since[index - 1]?.by !== 'model').length
  const toolResults = since.slice(since.findLastIndex(({ by }) => by === 'model') + 1).map(({ text }) => text)
  return { prompt: asked[last] ?? '', turn, toolResults }
}

/** Agents put what they know about the machine beside the prompt, in tags of their own. */
const wrappings = ['system-reminder', 'environment_context', 'user_instructions', 'session_context', 'INSTRUCTIONS']

function unwrapped(text: string): string {
  return wrappings.reduce((left, tag) => left.replaceAll(new RegExp(`<${tag}>[\\s\\S]*?</${tag}>`, 'g'), ''), text).trim()
}

/** The agent asks for itself: a title for its list of sessions, or which model to take. A program of the person's own never does. */
export function isAside({ tools, schema, system }: Conversation, userAgent: string): boolean {
  const isAgent = /^(claude-cli|codex|GeminiCLI|opencode)/i.test(userAgent)
  if (!isAgent || tools.length > 0) return false
  return schema !== undefined || /\btitle generator\b|\bgenerate a (short |brief |concise )?title\b/i.test(system)
}

export function object(value: unknown): Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Json) : {}
}

export function list(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}

export function string(value: unknown): string {
  return typeof value === 'string' ? value : ''
}

/** Text as it stands, or the texts of a list of parts. */
export function textOf(content: unknown): string {
  if (typeof content === 'string') return content
  return list(content)
    .map((part) => (typeof part === 'string' ? part : string(object(part).text)))
    .filter((text) => text !== '')
    .join('\n')
}

/** The smallest value that a schema allows: enough for an agent that asks for a choice. */
export function fitting(schema: Json): unknown {
  const options = list(schema.enum)
  if (options.length > 0) return options[0]
  const kind = string(Array.isArray(schema.type) ? schema.type[0] : schema.type).toLowerCase()
  if (kind === 'string') return 'scripted'
  if (kind === 'number' || kind === 'integer') return typeof schema.minimum === 'number' ? schema.minimum : 1
  if (kind === 'boolean') return false
  if (kind === 'array') return []
  return Object.fromEntries(Object.entries(object(schema.properties)).map(([name, one]) => [name, fitting(object(one))]))
}
