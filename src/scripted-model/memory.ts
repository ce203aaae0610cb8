import type { ApiName } from './api.ts'

/** Keeps the latest requests, bounded in number and in size. */

/** One request of an agent, parsed. */
export interface ModelRequest {
  readonly api: ApiName
  readonly model: string
  /** The prompt of the user without the context that the agent adds; its first 64 Ki characters. */
  readonly prompt: string
  /** The names of the tools that the agent offered. */
  readonly tools: readonly string[]
  /** The results of the previous turn's tools, as text; at most 64 Ki characters together. */
  readonly toolResults: readonly string[]
  /**
   * The number of model answers since the prompt: 0 for a request with the prompt, 1 for one with the results of the first tools, and so
   * on.
   */
  readonly turn: number
  /** The index of the matching rule in the script. -1 when no rule matched, or when `isAside` is true. */
  readonly rule: number
  /** True when the agent asks for its own purposes: a title for its session, or a choice of model. */
  readonly isAside: boolean
  /** The state of the answer. `open`: in progress. `gone`: the client disconnected first. `cut`: the script broke the connection. */
  readonly state: 'open' | 'answered' | 'gone' | 'cut'
  /** The request body. Only the latest hundred requests keep it, or fewer when these exceed 32 MiB. */
  readonly body?: unknown
}

export type Mutable<T> = { -readonly [K in keyof T]: T[K] }

const requestsKept = 1_000
const bodiesKept = 100
const bodyBytesKept = 32 * 1024 * 1024
/** The limit for a prompt, for all tool results of a request together, and for all tool names together. */
const charsKept = 64 * 1024

export class Memory {
  readonly requests: Mutable<ModelRequest>[] = []
  /** The requests that still have a body, oldest first. */
  readonly #bodies: { readonly of: Mutable<ModelRequest>; readonly bytes: number }[] = []
  #bodyBytes = 0

  keep(request: ModelRequest, bytes: number): Mutable<ModelRequest> {
    const kept: Mutable<ModelRequest> = { ...request, ...shortened(request) }
    this.requests.push(kept)
    if (this.requests.length > requestsKept) this.requests.shift()
    this.#bodies.push({ of: kept, bytes })
    this.#bodyBytes += bytes
    while (this.#bodies.length > bodiesKept || this.#bodyBytes > bodyBytesKept) this.#forgetOldestBody()
    return kept
  }

  #forgetOldestBody(): void {
    const oldest = this.#bodies.shift()
    if (!oldest) return
    this.#bodyBytes -= oldest.bytes
    delete oldest.of.body
  }
}

function shortened({ model, prompt, tools, toolResults }: ModelRequest): Pick<ModelRequest, 'model' | 'prompt' | 'tools' | 'toolResults'> {
  return { model: ownCopy(model), prompt: ownCopy(prompt), tools: together(tools), toolResults: together(toolResults) }
}

function together(texts: readonly string[]): readonly string[] {
  const kept: string[] = []
  let room = charsKept
  for (const text of texts) {
    if (room <= 0) break
    kept.push(ownCopy(text, room))
    // An empty text counts as one character, so the number of texts is bounded, too.
    room -= text.length + 1
  }
  return kept
}

/** Copies the text by cloning it. In V8 a slice keeps the whole original string in memory, which is the request body here. */
function ownCopy(text: string, chars = charsKept): string {
  return structuredClone(text.slice(0, chars))
}
