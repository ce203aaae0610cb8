import type { Message } from '../../core/model/message.ts'
import type { Output } from '../output.ts'
import type { Face } from './face.ts'
import { Flow, wrap } from './flow.ts'
import type { Paint } from './palette.ts'
import { cut, cutLine, harmless, many, widthOf } from './text.ts'
import { ToolUses } from './tool-use.ts'

/** A conversation on a terminal: text wrapped at words, tools folded, complaints apart. Nothing is wider than the terminal. */

/** For a person at a terminal; undefined where nobody looks, and words go as they are. */
export function conversationOn(output: Output, isJson: boolean, closeRequest: ConversationWish): ConversationView | undefined {
  if (isJson || output.face.width === undefined) return undefined
  const page: Page = {
    get face() {
      return output.face
    },
    get errorFace() {
      return output.errorFace
    },
    write: output.painted,
    complain: (text) => (output.errorFace.width === undefined ? output.err(text) : output.paintedError(text)),
  }
  return new ConversationView(page, closeRequest)
}

export interface Page {
  readonly face: Face
  readonly write: (text: string) => void
  /** Where complaints go; the same terminal, or elsewhere, and then as they are. */
  readonly complain: (text: string) => void
  readonly errorFace: Face
}

export interface ConversationWish {
  /** So many lines of a prompt, and of what a tool said; the others are counted. */
  readonly resultLines: number
}

type Sort = 'prompt' | 'text' | 'tool' | 'result' | 'system' | 'error' | 'output'

/** What the reader of a log notes of a line itself: that makes no line the last words of a program. */
const ofTheLine: ReadonlySet<string> = new Set(['truncated', 'totalBytes', 'invalidUtf8'])

/** Those that stand close to what is before them. */
const closeTo: Readonly<Partial<Record<Sort, Sort>>> = { result: 'tool', system: 'system', error: 'error', output: 'output' }

export class ConversationView {
  readonly #page: Page
  readonly #closeRequest: ConversationWish
  readonly #tools = new ToolUses()
  #last: Sort | undefined
  /** Text that comes in pieces, and has not ended. */
  #open: Flow | undefined
  #pieces = ''
  #lastText: string | undefined
  #lastPrompt: string | undefined
  #lastError: string | undefined

  constructor(page: Page, closeRequest: ConversationWish) {
    this.#page = page
    this.#closeRequest = closeRequest
  }

  show(messages: readonly Message[]): void {
    for (const message of messages) this.#one(message)
  }

  /** The last line has not ended: more of it comes. */
  get isOpen(): boolean {
    return this.#open !== undefined
  }

  /** What is still open is ended. */
  end(): void {
    if (!this.#open) return
    this.#page.write(`${this.#open.end()}\n`)
    this.#open = undefined
    this.#lastText = this.#pieces.trim()
  }

  /** An empty line before what comes last. */
  break(): void {
    this.end()
    if (this.#last !== undefined) this.#page.write('\n')
  }

  #one(message: Message): void {
    const { type, content, metadata = {} } = message
    if (type === 'assistant' && metadata.delta === true) this.#piece(content)
    else {
      this.end()
      this.#whole(message)
    }
  }

  #whole(message: Message): void {
    const { type, content, metadata = {} } = message
    if (type === 'error' || metadata.error !== undefined) this.#complain(message)
    else if (type === 'tool') this.#tool(message)
    else if (type === 'system' || metadata.thinking === true) this.#aside(message)
    else if (type === 'assistant') this.#text(content)
    else if (type === 'response') this.#response(message)
    else this.#prompt(content.trim())
  }

  /** It may be a book, and some programs say it again. */
  #prompt(content: string): void {
    if (content === '' || content === this.#lastPrompt) return
    this.#lastPrompt = content
    const { strong, accent, faint } = this.#palette
    this.#begin('prompt')
    const { shown, left } = this.#folded(wrap(harmless(content), this.#width, '  '))
    const lines = shown.map((line, at) => (at === 0 ? `${accent('❯ ')}${strong(line)}` : strong(line)))
    this.#page.write(`${[...lines, ...(left > 0 ? [`  ${faint(`… ${many(left, 'more line')}`)}`] : [])].join('\n')}\n`)
  }

  /** One line more is no longer than the words about it. */
  #folded(lines: readonly string[]): { readonly shown: readonly string[]; readonly left: number } {
    const most = this.#closeRequest.resultLines
    const shown = lines.length > most + 1 ? lines.slice(0, most) : lines
    return { shown, left: lines.length - shown.length }
  }

  /** An event of which there is nothing to tell but its name is no news for people. */
  #aside({ content, metadata }: Message): void {
    const { faint } = this.#palette
    if (content !== metadata?.subtype) this.#block('system', faint('· '), content, faint)
  }

  #text(content: string): void {
    this.#lastText = content.trim()
    this.#block('text', this.#palette.good('⏺ '), content)
  }

  get #palette(): Face['palette'] {
    return this.#page.face.palette
  }

  get #width(): number {
    return this.#page.face.width ?? Number.POSITIVE_INFINITY
  }

  /** The last words of a program repeat what it said; a line that nobody understood is shown in short. */
  #response(message: Message): void {
    const { content, metadata = {}, raw } = message
    if (metadata.isError === true) {
      if (content.trim() !== this.#lastText) this.#complain(message)
    } else if (Object.keys(metadata).some((key) => !ofTheLine.has(key))) {
      if (this.#lastText === undefined) this.#text(content)
    } else if (raw === undefined) {
      this.#begin('output')
      this.#page.write(`${wrap(harmless(content), this.#width).join('\n')}\n`)
    } else {
      this.#begin('system')
      this.#page.write(`${this.#palette.faint(`· ${cut(content, this.#width - 2)}`)}\n`)
    }
  }

  #piece(content: string): void {
    if (!this.#open) {
      this.#begin('text')
      this.#page.write(this.#palette.good('⏺ '))
      this.#open = new Flow(this.#width, '  ')
      this.#pieces = ''
    }
    this.#pieces = (this.#pieces + content).slice(-100_000)
    this.#page.write(this.#open.write(harmless(content)))
  }

  #block(sort: Sort, mark: string, content: string, paint: Paint = (text) => text): void {
    this.#begin(sort)
    const [first = '', ...rest] = wrap(harmless(content).trim(), this.#width, '  ')
    this.#page.write(`${[`${mark}${paint(first)}`, ...rest.map((line) => paint(line))].join('\n')}\n`)
  }

  #tool(message: Message): void {
    const { call, result, isError } = this.#tools.read(message)
    const { faint, bad, accent, strong } = this.#palette
    if (call) {
      this.#begin('tool')
      const tool = cut(call.tool, Math.min(30, this.#width - 2))
      const argument = cut(call.argument, Math.max(0, this.#width - widthOf(tool) - 4))
      this.#page.write(`${isError ? bad('⏺') : accent('⏺')} ${strong(tool)}${argument === '' ? '' : `  ${argument}`}\n`)
    }
    if (result === undefined || result.trim() === '') return
    this.#begin('result')
    const lines = harmless(result)
      .replaceAll('\t', '    ')
      .split('\n')
      .map((line) => line.trimEnd())
    while (lines.length > 1 && lines.at(-1) === '') lines.pop()
    const { shown, left } = this.#folded(lines)
    const paint = isError ? bad : faint
    for (const [at, line] of shown.entries()) {
      const room = this.#width - 4
      this.#page.write(`  ${faint(at === 0 ? '⎿' : ' ')} ${paint(cutLine(line, room))}\n`)
    }
    if (left > 0) this.#page.write(`    ${faint(`… ${many(left, 'more line')}`)}\n`)
  }

  /** Programs repeat what went wrong in their last words; what they write to standard error is shown as often as it comes. */
  #complain({ content, metadata = {} }: Message): void {
    const { width, palette } = this.#page.errorFace
    if (width === undefined) {
      this.#page.complain(`${content}\n`)
      return
    }
    const said = content.trim()
    if (said === '' || (said === this.#lastError && metadata.stream !== 'stderr')) return
    this.#begin('error')
    this.#lastError = said
    this.#lastText = said
    const [first = '', ...rest] = wrap(harmless(said), width, '  ')
    this.#page.complain(`${[palette.bad(`✗ ${first}`), ...rest.map(palette.bad)].join('\n')}\n`)
  }

  #begin(sort: Sort): void {
    if (this.#last !== undefined && closeTo[sort] !== this.#last && !(sort === 'result' && this.#last === 'result')) this.#page.write('\n')
    this.#last = sort
    if (sort !== 'error') this.#lastError = undefined
  }
}
