import type { Message } from '../../core/model/message.ts'
import type { Output } from '../output.ts'
import { Flow, wrap } from './flow.ts'
import type { Paint } from './palette.ts'
import type { Style } from './style.ts'
import { cut, cutLine, harmless, many, widthOf } from './text.ts'
import { ToolUses } from './tool-use.ts'

/**
 * A conversation on a terminal: text is wrapped at words, results of tools are shortened, and errors are marked. No line is wider
 * than the terminal.
 */

/** The view of a conversation on a terminal. Undefined if standard output is no terminal; then messages are printed as they are. */
export function conversationOn(output: Output, isJson: boolean, options: ConversationOptions): ConversationView | undefined {
  if (isJson || output.style.width === undefined) return undefined
  const page: Page = {
    get style() {
      return output.style
    },
    get errorStyle() {
      return output.errorStyle
    },
    write: output.painted,
    writeError: (text) => (output.errorStyle.width === undefined ? output.err(text) : output.paintedError(text)),
  }
  return new ConversationView(page, options)
}

export interface Page {
  readonly style: Style
  readonly write: (text: string) => void
  /** Writes to standard error, which is the same terminal or a pipe. In a pipe errors are written as they are. */
  readonly writeError: (text: string) => void
  readonly errorStyle: Style
}

export interface ConversationOptions {
  /** How many lines of a prompt and of a tool's result are shown. The others are counted. */
  readonly resultLines: number
}

type BlockKind = 'prompt' | 'text' | 'tool' | 'result' | 'system' | 'error' | 'output'

/** Metadata that the log reader adds to a line. A line with no other metadata is plain output, not the final response of a program. */
const lineMetadata: ReadonlySet<string> = new Set(['truncated', 'totalBytes', 'invalidUtf8'])

/** For a kind of block, the kind of preceding block that it follows without an empty line. */
const attachedTo: Readonly<Partial<Record<BlockKind, BlockKind>>> = { result: 'tool', system: 'system', error: 'error', output: 'output' }

export class ConversationView {
  readonly #page: Page
  readonly #options: ConversationOptions
  readonly #tools = new ToolUses()
  #last: BlockKind | undefined
  /** The text that is arriving in pieces, if any. */
  #open: Flow | undefined
  #pieces = ''
  #lastText: string | undefined
  #lastPrompt: string | undefined
  #lastError: string | undefined

  constructor(page: Page, options: ConversationOptions) {
    this.#page = page
    this.#options = options
  }

  show(messages: readonly Message[]): void {
    for (const message of messages) this.#show(message)
  }

  /** Whether the last line is unfinished, because more of its text may arrive. */
  get isOpen(): boolean {
    return this.#open !== undefined
  }

  /** Ends an unfinished text. */
  end(): void {
    if (!this.#open) return
    this.#page.write(`${this.#open.end()}\n`)
    this.#open = undefined
    this.#lastText = this.#pieces.trim()
  }

  /** Ends an unfinished text, and writes an empty line before the final output. */
  break(): void {
    this.end()
    if (this.#last !== undefined) this.#page.write('\n')
  }

  #show(message: Message): void {
    const { type, content, metadata = {} } = message
    if (type === 'assistant' && metadata.delta === true) this.#piece(content)
    else {
      this.end()
      this.#whole(message)
    }
  }

  #whole(message: Message): void {
    const { type, content, metadata = {} } = message
    if (type === 'error' || metadata.error !== undefined) this.#error(message)
    else if (type === 'tool') this.#tool(message)
    else if (type === 'system' || metadata.thinking === true) this.#system(message)
    else if (type === 'assistant') this.#text(content)
    else if (type === 'response') this.#response(message)
    else this.#prompt(content.trim())
  }

  /** A prompt may be long, so it is shortened. Some programs repeat it, so a repetition is skipped. */
  #prompt(content: string): void {
    if (content === '' || content === this.#lastPrompt) return
    this.#lastPrompt = content
    const { strong, accent, faint } = this.#palette
    this.#begin('prompt')
    const { shown, left } = this.#folded(wrap(harmless(content), this.#width, '  '))
    const lines = shown.map((line, at) => (at === 0 ? `${accent('❯ ')}${strong(line)}` : strong(line)))
    this.#page.write(`${[...lines, ...(left > 0 ? [`  ${faint(`… ${many(left, 'more line')}`)}`] : [])].join('\n')}\n`)
  }

  /** Cuts lines to the limit. One line above the limit is shown, because the note about the rest would take a line as well. */
  #folded(lines: readonly string[]): { readonly shown: readonly string[]; readonly left: number } {
    const most = this.#options.resultLines
    const shown = lines.length > most + 1 ? lines.slice(0, most) : lines
    return { shown, left: lines.length - shown.length }
  }

  /** A system event whose content is only its name is not shown. */
  #system({ content, metadata }: Message): void {
    const { faint } = this.#palette
    if (content !== metadata?.subtype) this.#block('system', faint('· '), content, faint)
  }

  #text(content: string): void {
    this.#lastText = content.trim()
    this.#block('text', this.#palette.good('⏺ '), content)
  }

  get #palette(): Style['palette'] {
    return this.#page.style.palette
  }

  get #width(): number {
    return this.#page.style.width ?? Number.POSITIVE_INFINITY
  }

  /** A final response that repeats the last text is skipped. A line that no parser understood is shortened. */
  #response(message: Message): void {
    const { content, metadata = {}, raw } = message
    if (metadata.isError === true) {
      if (content.trim() !== this.#lastText) this.#error(message)
    } else if (Object.keys(metadata).some((key) => !lineMetadata.has(key))) {
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

  #block(kind: BlockKind, mark: string, content: string, paint: Paint = (text) => text): void {
    this.#begin(kind)
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

  /** Programs repeat an error in their final response, so a repetition is skipped, except for lines of standard error. */
  #error({ content, metadata = {} }: Message): void {
    const { width, palette } = this.#page.errorStyle
    if (width === undefined) {
      this.#page.writeError(`${content}\n`)
      return
    }
    const text = content.trim()
    if (text === '' || (text === this.#lastError && metadata.stream !== 'stderr')) return
    this.#begin('error')
    this.#lastError = text
    this.#lastText = text
    const [first = '', ...rest] = wrap(harmless(text), width, '  ')
    this.#page.writeError(`${[palette.bad(`✗ ${first}`), ...rest.map(palette.bad)].join('\n')}\n`)
  }

  #begin(kind: BlockKind): void {
    if (this.#last !== undefined && attachedTo[kind] !== this.#last && !(kind === 'result' && this.#last === 'result'))
      this.#page.write('\n')
    this.#last = kind
    if (kind !== 'error') this.#lastError = undefined
  }
}
