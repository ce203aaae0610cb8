import { type AnswerWriter, type Api, type Failure, tokensIn } from '../api.ts'
import {
  type Conversation,
  type Entry,
  type Json,
  list,
  type OfferedTool,
  object,
  sinceLastPrompt,
  string,
  textOf,
} from '../conversation.ts'
import { array, type Outlet } from '../outlet.ts'

/** The API of Gemini: parts of one candidate. The path has the model and whether to stream; the query has the stream's format. */
export const gemini: Api = {
  name: 'gemini',

  call: (path) => {
    if (path.endsWith(':countTokens')) return 'count'
    return /:(generateContent|streamGenerateContent)$/.test(path) ? 'answer' : undefined
  },

  read: (body, { pathname: path, searchParams }) => {
    const settings = object(body.generationConfig)
    const schema = settings.responseJsonSchema ?? settings.responseSchema
    const contents = body.contents
    const all = (Array.isArray(contents) ? contents : [contents]).map(object)
    return {
      model: /models\/([^/:]+)/.exec(path)?.[1] ?? '',
      system: textOf(object(body.systemInstruction).parts),
      tools: list(body.tools).flatMap((tool) => list(object(tool).functionDeclarations).map((one) => ({ name: string(object(one).name) }))),
      isStreaming: path.endsWith(':streamGenerateContent'),
      isArray: searchParams.get('alt') !== 'sse',
      ...(schema !== undefined && { schema: object(schema) }),
      ...sinceLastPrompt(all.flatMap(entries)),
    }
  },

  openAnswer: (conversation, outlet) => new Parts(conversation, outlet),

  error: ({ status, message }) => ({ error: { code: status, message, status: statuses[status] ?? 'INTERNAL' } }),

  count: (tokens) => ({ totalTokens: tokens }),
}

const statuses: Readonly<Record<number, string>> = {
  400: 'INVALID_ARGUMENT',
  401: 'UNAUTHENTICATED',
  403: 'PERMISSION_DENIED',
  404: 'NOT_FOUND',
  429: 'RESOURCE_EXHAUSTED',
  503: 'UNAVAILABLE',
  504: 'DEADLINE_EXCEEDED',
  529: 'UNAVAILABLE',
}

function entries({ role, parts }: Json): readonly Entry[] {
  if (role === 'model') return [{ by: 'model', text: textOf(parts) }]
  const answers = list(parts).flatMap((part): readonly Entry[] => {
    const { functionResponse } = object(part)
    return functionResponse === undefined ? [] : [{ by: 'tool', text: answerOf(object(object(functionResponse).response)) }]
  })
  return answers.length > 0 ? answers : [{ by: 'person', text: textOf(parts) }]
}

function answerOf(response: Json): string {
  return string(response.output) || string(response.error) || JSON.stringify(response)
}

class Parts implements AnswerWriter {
  readonly #outlet: Outlet
  readonly #isStreaming: boolean
  readonly #model: string
  readonly #promptTokens: number
  readonly #parts: Json[] = []

  constructor({ model, isStreaming, isArray = false, prompt }: Conversation, outlet: Outlet) {
    this.#outlet = outlet
    if (isArray) outlet.framing = array
    this.#isStreaming = isStreaming
    this.#model = model
    this.#promptTokens = tokensIn(prompt)
  }

  text(piece: string, isKept: boolean): void {
    this.#add({ text: piece }, isKept)
  }

  call({ name }: OfferedTool, input: Json): void {
    this.#add({ functionCall: { name, args: input } }, true)
  }

  end(): void {
    const answerTokens = tokensIn(JSON.stringify(this.#parts))
    const usage = {
      promptTokenCount: this.#promptTokens,
      candidatesTokenCount: answerTokens,
      totalTokenCount: this.#promptTokens + answerTokens,
    }
    const last = this.#answer(this.#isStreaming ? [{ text: '' }] : this.#parts, { finishReason: 'STOP' })
    if (!this.#isStreaming) {
      this.#outlet.json(200, { ...last, usageMetadata: usage })
      return
    }
    this.#outlet.event(undefined, { ...last, usageMetadata: usage })
    this.#outlet.close()
  }

  fail(failure: Failure): void {
    this.#outlet.event(undefined, gemini.error(failure))
    this.#outlet.close()
  }

  #add(part: Json, isKept: boolean): void {
    if (isKept) this.#parts.push(part)
    if (this.#isStreaming) this.#outlet.event(undefined, this.#answer([part]))
  }

  #answer(parts: readonly Json[], more: Json = {}): Json {
    return { candidates: [{ index: 0, content: { role: 'model', parts }, ...more }], modelVersion: this.#model }
  }
}
