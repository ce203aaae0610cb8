import { letterWidth, widthOf } from './text.ts'

/**
 * Wraps text that arrives in pieces. Lines break between words; a word that is longer than a line is broken. Spaces at the
 * beginning of a line are kept, for the indentation of code. The text must be harmless already.
 */
export class Flow {
  readonly #width: number
  readonly #margin: string
  #column = 0
  #gap = ''
  #word = ''
  /** True when the current line continues the previous one after a wrap. */
  #isContinued = false

  constructor(width: number, margin = '') {
    this.#width = Math.max(2, width - widthOf(margin))
    this.#margin = margin
  }

  /** Adds text and returns what can be shown so far. A word is shown after its end. */
  write(text: string): string {
    let shown = ''
    for (const piece of text.split(/([ \t]+|\n)/)) {
      if (piece === '') continue
      if (piece === '\n') {
        shown += this.#place()
        shown += this.#newLine(false)
      } else if (/^[ \t]/.test(piece)) {
        shown += this.#place()
        this.#gap += piece.replaceAll('\t', '    ')
      } else this.#word += piece
    }
    return shown
  }

  end(): string {
    const shown = this.#place()
    this.#gap = ''
    return shown
  }

  #newLine(isContinued: boolean): string {
    this.#column = 0
    this.#gap = ''
    this.#isContinued = isContinued
    return `\n${this.#margin}`
  }

  #place(): string {
    const word = this.#word
    if (word === '') return ''
    this.#word = ''
    const wordWidth = widthOf(word)
    let shown = ''
    if (this.#column + this.#gap.length + wordWidth > this.#width && (this.#column > 0 || this.#gap.length > this.#width / 2)) {
      // A word that is longer than a whole line starts on the current line.
      if (wordWidth <= this.#width || this.#column + this.#gap.length >= this.#width) shown += this.#column > 0 ? this.#newLine(true) : ''
      if (this.#column === 0 && this.#gap.length > this.#width / 2) this.#gap = ''
    }
    if (this.#column === 0 && this.#isContinued) this.#gap = ''
    shown += this.#gap
    this.#column += this.#gap.length
    this.#gap = ''
    return shown + this.#letters(word)
  }

  #letters(word: string): string {
    let shown = ''
    for (const letter of word) {
      const width = letterWidth(letter)
      if (this.#column > 0 && this.#column + width > this.#width) shown += this.#newLine(true)
      shown += letter
      this.#column += width
    }
    return shown
  }
}

/** Wraps a whole text into lines. The margin stands before all lines except the first. */
export function wrap(text: string, width: number, margin = ''): readonly string[] {
  const flow = new Flow(width, margin)
  return (flow.write(text) + flow.end()).split('\n').map((line) => line.trimEnd())
}
