import { stripVTControlCharacters } from 'node:util'
import type { Message } from '../../domain/message.ts'

/** How agents and their words look in a shell. */

/** Where words go; a test, or a closed pipe, may want them elsewhere. */
export interface Output {
  readonly out: (text: string) => void
  readonly err: (text: string) => void
}

const marks: Readonly<Partial<Record<Message['type'], string>>> = { user: '> ', tool: '[tool] ', system: '[system] ' }

/**
 * What the agent says, plainly; what others say, with a mark. Complaints go to standard error. As JSON: one message a
 * line, all of them, in order.
 */
export function messagePrinter({ out, err }: Output, isJson: boolean): (messages: readonly Message[]) => void {
  return (messages) => {
    for (const message of messages) {
      if (isJson) out(`${JSON.stringify(message)}\n`)
      else if (message.type === 'error') err(`${message.content}\n`)
      else out(`${marks[message.type] ?? ''}${message.content}\n`)
    }
  }
}

/** On a terminal, words are words: no agent moves the cursor, sets the title or clears the screen of who reads its log. */
export function harmless(text: string): string {
  return stripVTControlCharacters(text).replaceAll(/[^\P{Cc}\t\n]/gu, '')
}

/** In one line of a table. */
export function cut(text: string, width: number): string {
  const flat = harmless(text).replaceAll(/\s+/g, ' ').trim()
  const letters = Array.from(flat)
  let used = 0
  // Where it would have to end to leave room for the dots.
  let room = 0
  for (const [index, letter] of letters.entries()) {
    used += widthOf(letter)
    if (used > width) return `${letters.slice(0, room).join('')}…`
    if (used < width) room = index + 1
  }
  return flat
}

/** East Asian letters and pictures take two columns. */
function widthOf(letter: string): number {
  return /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Emoji_Presentation}\uff01-\uff60]/u.test(letter) ? 2 : 1
}

export function many(count: number, one: string, several = `${one}s`): string {
  return `${count} ${count === 1 ? one : several}`
}

/** The first part of a UUID is enough to tell a few thousand agents apart. */
export function shortId(id: string): string {
  return id.slice(0, 8)
}

const units = [
  ['d', 86_400],
  ['h', 3_600],
  ['m', 60],
] as const

export function ageOf(sinceMs: number, nowMs: number): string {
  const seconds = Math.max(0, Math.floor((nowMs - sinceMs) / 1_000))
  const [unit, size] = units.find(([, size]) => seconds >= size) ?? ['s', 1]
  return `${Math.floor(seconds / size)}${unit}`
}

/** Columns as wide as their widest entry; the last one as it is. */
export function table(rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => (row[column] ?? '').length)))
  const line = (row: readonly string[]): string =>
    row.map((text, column) => (column === row.length - 1 ? text : text.padEnd(widths[column] ?? 0))).join('  ')
  return rows.map((row) => `${line(row).trimEnd()}\n`).join('')
}
