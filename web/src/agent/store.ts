import { fetchMessages } from '../api/calls.ts'
import { isAbort, sentenceOf } from '../api/client.ts'
import type { Message, MessageType } from '../api/shapes.ts'
import { beginning } from '../pieces/format.ts'

/**
 * One conversation, of which only a part is held: pages of messages around what is being read, and the newest. Numbers have
 * no gaps, so a message's place is its number, and what is missing is simply asked for; nothing is there twice.
 */

/** A message as it is shown. What is long or rarely wanted is fetched again when somebody asks. */
export interface Line {
  readonly number: number
  readonly type: MessageType
  readonly text: string
  /** Of the whole text. */
  readonly length: number
  readonly tool: string | undefined
  readonly isThought: boolean
  /** What a tool answered, not what it was asked. */
  readonly isResult: boolean
  readonly isFailure: boolean
  readonly hasRaw: boolean
  /** Goes on without a break where the next piece begins, as of a program that tells what its model says while it says it. */
  readonly isPiece: boolean
  /** The last of the pieces that are shown with it. */
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
/** All texts together, in characters. */
const mostSize = 16_000_000

export class Conversation {
  readonly #agentId: string
  readonly #over = new AbortController()
  readonly #listeners = new Set<() => void>()
  /** The one that was wanted last is last. */
  readonly #pages = new Map<number, Page>()
  readonly #asked = new Set<number>()
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

  /** The number of the last message that is known of. */
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
   * It is shown with one before it. Only within a page: a page is there as a whole or not at all, so nothing else has to be
   * fetched for it, and no text grows without end.
   */
  goesOn(number: number): boolean {
    return placeOf(number) > 0 && this.line(number)?.isPiece === true && this.line(number - 1)?.isPiece === true
  }

  /** A line with the pieces that go on after it. */
  whole(number: number): Line | undefined {
    const line = this.line(number)
    if (!line || !this.goesOn(number + 1)) return line
    let until = number
    let text = line.text
    while (this.goesOn(until + 1)) text += this.line(++until)?.text ?? ''
    return { ...line, text, length: text.length, until }
  }

  /** A live one. What was said before it and not heard is only known to be there. */
  take(message: Message): void {
    const page = pageOf(message.sequenceNumber)
    // Long overtaken, and nobody reads there: it would be made only to be let go.
    if (page < pageOf(this.#total) - 1 && !this.#pages.has(page)) return
    this.#total = Math.max(this.#total, message.sequenceNumber)
    this.#put(message)
    this.#evict(page)
    this.#tell()
  }

  /** There are at least so many. */
  grow(total: number): void {
    if (total <= this.#total) return
    this.#total = total
    this.#tell()
  }

  /** These are being looked at: what is missing of them is fetched, and what is far from them may go. */
  want(first: number, last: number): void {
    for (let page = pageOf(Math.max(1, first)); page <= pageOf(Math.min(last, this.#total)); page++) {
      const held = this.#pages.get(page)
      if (held) {
        this.#pages.delete(page)
        this.#pages.set(page, held)
      }
      if (!this.#asked.has(page) && this.#problem === undefined && !this.#isWhole(page)) void this.#fetch(page)
    }
  }

  retry(): void {
    this.#retries += 1
    this.#problem = undefined
    this.#tell()
  }

  close(): void {
    this.#over.abort()
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
    this.#asked.add(page)
    const asked = this.#retries
    try {
      const messages = await fetchMessages(this.#agentId, page * pageSize, pageSize, this.#over.signal)
      for (const message of messages) this.#put(message)
      this.#total = Math.max(this.#total, messages.at(-1)?.sequenceNumber ?? 0)
      this.#evict(page)
    } catch (error) {
      // Asked before the last retry, so it tells of a server that was lost then: with no problem, it is simply asked for again.
      const isStale = asked !== this.#retries
      if (!isStale && !this.#over.signal.aborted && !isAbort(error)) this.#problem = sentenceOf(error)
    }
    this.#asked.delete(page)
    this.#tell()
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

  /** A thousand messages in one frame are one picture. */
  #tell(): void {
    if (this.#frame !== 0 || this.#over.signal.aborted) return
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
    // A slice keeps the whole alive in some engines; a copy does not.
    text: content.length > keptText ? `${beginning(content, keptText)} `.slice(0, -1) : content,
    length: content.length,
    tool: typeof metadata.tool === 'string' ? metadata.tool : undefined,
    isThought: metadata.thinking === true,
    isResult: metadata.toolUseId !== undefined && metadata.tool === undefined,
    isFailure: type === 'error' || metadata.isError === true,
    hasRaw: raw !== undefined,
    // One of which only the beginning is held stands for itself.
    isPiece: type === 'assistant' && metadata.delta === true && content.length <= keptText,
    until: sequenceNumber,
    createdAt,
  }
}
