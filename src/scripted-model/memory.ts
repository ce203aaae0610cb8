import type { ApiName } from './api.ts'

/** What was asked, as far as it is kept: bounded in number and in size, whatever agents send. */

/** One call of an agent, as it was understood. */
export interface ModelRequest {
  readonly api: ApiName
  readonly model: string
  /** What the person asked for, without what the agent wraps around it; its first 64 Ki characters. */
  readonly prompt: string
  /** The names of the tools that the agent offered. */
  readonly tools: readonly string[]
  /** What the tools of the turn before answered, as text; together at most 64 Ki characters. */
  readonly toolResults: readonly string[]
  /** 0 for the prompt, 1 for the results of the first tools, … */
  readonly turn: number
  /** The place of the rule in the script; -1 when none matched, or for an aside. */
  readonly rule: number
  /** The agent asks for itself: a title, or which model to take. */
  readonly isAside: boolean
  /** `open` while it is being answered; `gone` when the client went before the end; `cut` when the script broke it off. */
  readonly state: 'open' | 'answered' | 'gone' | 'cut'
  /** As it was sent; of the latest hundred, and of fewer when they are more than 32 MiB. */
  readonly body?: unknown
}

export type Mutable<T> = { -readonly [K in keyof T]: T[K] }

const requestsKept = 1_000
const bodiesKept = 100
const bodyBytesKept = 32 * 1024 * 1024
/** Of a prompt; and of the results of all tools of a request, and of their names. */
const charsKept = 64 * 1024

export class Memory {
  readonly requests: Mutable<ModelRequest>[] = []
  /** Those with a body, oldest first. */
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
    // Empty ones need room too.
    room -= text.length + 1
  }
  return kept
}

/** A part of a string holds on to all of it, and these are parts of the body; a clone does not. */
function ownCopy(text: string, chars = charsKept): string {
  return structuredClone(text.slice(0, chars))
}
