/** A request of an agent, independent of its API. */
export interface Conversation {
  readonly model: string
  /** The last prompt of the user, without the context that the agent adds. */
  readonly prompt: string
  readonly system: string
  readonly tools: readonly OfferedTool[]
  readonly toolResults: readonly string[]
  /** How often the model has answered since the last prompt. */
  readonly turn: number
  readonly isStreaming: boolean
  /** True when the client expects the stream as one JSON array instead of events. */
  readonly isArray?: boolean
  /** True when the client asked for the token usage in the stream. Only some APIs have that option. */
  readonly wantsUsage?: boolean
  /** The JSON schema that the answer must match, if one was given. */
  readonly schema?: Json
}

export interface OfferedTool {
  /** The name by which scripts call the tool. */
  readonly name: string
  /** The fields that name the tool in the API. Undefined when the API uses `name`. */
  readonly wire?: Json
}

export type Json = Readonly<Record<string, unknown>>

/** One entry of a conversation: who wrote it, and its text. */
export interface Entry {
  readonly by: 'person' | 'model' | 'tool' | 'other'
  readonly text: string
}

/** The last prompt, how often the model has answered since, and the tool results since its last answer. */
export function sinceLastPrompt(entries: readonly Entry[]): Pick<Conversation, 'prompt' | 'turn' | 'toolResults'> {
  const asked = entries.map(({ by, text }) => (by === 'person' ? unwrapped(text) : ''))
  const last = asked.findLastIndex((text) => text !== '')
  const since = entries.slice(last + 1).filter(({ by }) => by === 'model' || by === 'tool')
  const turn = since.filter(({ by }, index) => by === 'model' && since[index - 1]?.by !== 'model').length
  const toolResults = since.slice(since.findLastIndex(({ by }) => by === 'model') + 1).map(({ text }) => text)
  return { prompt: asked[last] ?? '', turn, toolResults }
}

/** Agents add context to the prompt, such as facts about the machine, in tags of their own. */
const wrappings = ['system-reminder', 'environment_context', 'user_instructions', 'session_context', 'INSTRUCTIONS']

function unwrapped(text: string): string {
  return wrappings.reduce((left, tag) => left.replaceAll(new RegExp(`<${tag}>[\\s\\S]*?</${tag}>`, 'g'), ''), text).trim()
}

/**
 * True when an agent program asks for its own purposes, such as a title for its list of sessions, or a choice of model. Other clients never
 * do that.
 */
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

/** A plain text, or the texts of a list of parts. */
export function textOf(content: unknown): string {
  if (typeof content === 'string') return content
  return list(content)
    .map((part) => (typeof part === 'string' ? part : string(object(part).text)))
    .filter((text) => text !== '')
    .join('\n')
}

/** A simple value that matches a schema, which is enough for an agent that asks for a choice. */
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
