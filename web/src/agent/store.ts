import { fetchMessages } from '../api/calls.ts'
import { isAbort, sentenceOf } from '../api/client.ts'
import type { Message, MessageType } from '../api/shapes.ts'
import { beginning } from '../pieces/format.ts'

/**
 * One conversation, of which the page holds only a part: the newest messages, and the pages of messages around the scroll position.
 * Message numbers have no gaps, so a message's number is its position. Missing messages are fetched by number, and none appears twice.
 */

/** A message as it is shown. The rest of a long text and the raw line are not held; they are fetched on demand. */
export interface Line {
  readonly number: number
  readonly type: MessageType
  readonly text: string
  /** Length of the whole text, in characters. */
  readonly length: number
  readonly tool: string | undefined
  readonly isThought: boolean
  /** True for the result of a tool, false for the call of a tool. */
  readonly isResult: boolean
  readonly isFailure: boolean
  readonly hasRaw: boolean
  /** A fragment of a streamed text: the next fragment continues it without a line break. */
  readonly isFragment: boolean
  /** The number of the last fragment that is shown as part of this message. */
  readonly until: number
  readonly createdAt: string
}

interface Page {
  readonly lines: (Line | undefined)[]
  size: number
}

export const keptText = 4_000
const pageSize = 100
const mostPages = 80
/** The limit for all texts together, in characters. */
const mostSize = 16_000_000

export class Conversation {
  readonly #agentId: string
  readonly #closed = new AbortController()
  readonly #listeners = new Set<() => void>()
  /** The pages in order of last use: the most recently used page is last. */
  readonly #pages = new Map<number, Page>()
  readonly #loading = new Set<number>()
  #size = 0
  #total: number
  #version = 0
  #frame = 0
  #problem: string | undefined
  #retries = 0

  constructor(agentId: string, total: number) {
    this.#agentId = agentId
    this.#total = total
  }

  /** The number of the last known message. */
  get total(): number {
    return this.#total
  }

  get problem(): string | undefined {
    return this.#problem
  }

  readonly version = (): number => this.#version

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  line(number: number): Line | undefined {
    return this.#pages.get(pageOf(number))?.lines[placeOf(number)]
  }

  /**
   * Whether the message is a fragment that is shown as part of the previous one. Fragments are joined only within a page: a page is
   * held completely or not at all, so joining needs no further fetch, and the joined text is bounded.
   */
  isContinuation(number: number): boolean {
    return placeOf(number) > 0 && this.line(number)?.isFragment === true && this.line(number - 1)?.isFragment === true
  }

  /** A message joined with the fragments that continue it. */
  joined(number: number): Line | undefined {
    const line = this.line(number)
    if (!line || !this.isContinuation(number + 1)) return line
    let until = number
    let text = line.text
    while (this.isContinuation(until + 1)) text += this.line(++until)?.text ?? ''
    return { ...line, text, length: text.length, until }
  }

  /** Adds a live message. Earlier messages that were not received count in the total and are fetched on demand. */
  take(message: Message): void {
    const page = pageOf(message.sequenceNumber)
    // A page that is far behind the end and not held is not created: it would be evicted at once.
    if (page < pageOf(this.#total) - 1 && !this.#pages.has(page)) return
    this.#total = Math.max(this.#total, message.sequenceNumber)
    this.#put(message)
    this.#evict(page)
    this.#notify()
  }

  /** Raises the total: the conversation has at least this many messages. */
  grow(total: number): void {
    if (total <= this.#total) return
    this.#total = total
    this.#notify()
  }

  /** Declares the visible range. Its missing messages are fetched, and its pages are marked as recently used. */
  want(first: number, last: number): void {
    for (let page = pageOf(Math.max(1, first)); page <= pageOf(Math.min(last, this.#total)); page++) {
      const held = this.#pages.get(page)
      if (held) {
        this.#pages.delete(page)
        this.#pages.set(page, held)
      }
      if (!this.#loading.has(page) && this.#problem === undefined && !this.#isWhole(page)) void this.#fetch(page)
    }
  }

  retry(): void {
    this.#retries += 1
    this.#problem = undefined
    this.#notify()
  }

  close(): void {
    this.#closed.abort()
    cancelAnimationFrame(this.#frame)
  }

  #isWhole(page: number): boolean {
    const count = Math.min(pageSize, this.#total - page * pageSize)
    const lines = this.#pages.get(page)?.lines
    if (!lines) return count <= 0
    for (let place = 0; place < count; place++) if (!lines[place]) return false
    return true
  }

  async #fetch(page: number): Promise<void> {
    this.#loading.add(page)
    const retriesBefore = this.#retries
    try {
      const messages = await fetchMessages(this.#agentId, page * pageSize, pageSize, this.#closed.signal)
      for (const message of messages) this.#put(message)
      this.#total = Math.max(this.#total, messages.at(-1)?.sequenceNumber ?? 0)
      this.#evict(page)
    } catch (error) {
      // The request began before the last retry, so its failure says nothing about the connection now. It is repeated.
      const isStale = retriesBefore !== this.#retries
      if (!isStale && !this.#closed.signal.aborted && !isAbort(error)) this.#problem = sentenceOf(error)
    }
    this.#loading.delete(page)
    this.#notify()
  }

  #put(message: Message): void {
    const number = message.sequenceNumber
    const page = this.#pages.get(pageOf(number)) ?? { lines: [], size: 0 }
    const known = page.lines[placeOf(number)]
    const line = lineOf(message)
    const grown = line.text.length - (known?.text.length ?? 0)
    page.lines[placeOf(number)] = line
    page.size += grown
    this.#size += grown
    if (!this.#pages.has(pageOf(number))) this.#pages.set(pageOf(number), page)
  }

  #evict(kept: number): void {
    for (const [page, { size }] of this.#pages) {
      if (this.#pages.size <= mostPages && this.#size <= mostSize) return
      if (page === kept) continue
      this.#pages.delete(page)
      this.#size -= size
    }
  }

  /** Notifies the listeners at most once per animation frame. */
  #notify(): void {
    if (this.#frame !== 0 || this.#closed.signal.aborted) return
    this.#frame = requestAnimationFrame(() => {
      this.#frame = 0
      this.#version += 1
      for (const listener of this.#listeners) listener()
    })
  }
}

const pageOf = (number: number): number => Math.floor((number - 1) / pageSize)
const placeOf = (number: number): number => (number - 1) % pageSize

function lineOf({ sequenceNumber, type, content, raw, metadata = {}, createdAt }: Message): Line {
  return {
    number: sequenceNumber,
    type,
    // Some engines keep the whole string alive for a slice. Concatenation makes a copy.
    text: content.length > keptText ? `${beginning(content, keptText)} `.slice(0, -1) : content,
    length: content.length,
    tool: typeof metadata.tool === 'string' ? metadata.tool : undefined,
    isThought: metadata.thinking === true,
    isResult: metadata.toolUseId !== undefined && metadata.tool === undefined,
    isFailure: type === 'error' || metadata.isError === true,
    hasRaw: raw !== undefined,
    // A message of which only the beginning is held cannot be joined with others.
    isFragment: type === 'assistant' && metadata.delta === true && content.length <= keptText,
    until: sequenceNumber,
    createdAt,
  }
}
