import { stripVTControlCharacters } from 'node:util'

/** Foreign words on a terminal: what they may contain, how wide they are, and how they are cut to fit. */

/** Overrides of the direction: with them a line shows something else than it says. */
const directions = /[\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069]/g

/**
 * Terminals do not agree on the width of joined, toned and dressed pictures, and a line that is wider than it was taken
 * for breaks a table: each picture stands for itself.
 */
const dressings = /(?<=\p{Emoji_Presentation}|\p{Extended_Pictographic})(\u200d|[\u{1f3fb}-\u{1f3ff}])+/gu

/** On a terminal, words are words: no agent moves the cursor, sets the title or clears the screen of who reads its log. */
export function harmless(text: string): string {
  if (/^[\t\n\u0020-\u007e]*$/.test(text)) return text
  return stripVTControlCharacters(text)
    .replaceAll(/\r+(?=\n|$)/g, '')
    .replaceAll(/\r|\u2028|\u2029|\u0085/g, '\n')
    .replaceAll(/[^\P{Cc}\t\n]/gu, '')
    .replaceAll(directions, '')
    .replaceAll('\ufe0f', '')
    .replaceAll(dressings, '')
}

/** In one line. */
export function flat(text: string): string {
  return harmless(text).replaceAll(/\s+/g, ' ').trim()
}

const ascii = /^[\u0020-\u007e]*$/

/** Marks that stand on the letter before them, and letters that nobody sees. The soft hyphen is shown. */
const none = /^[\p{Mn}\p{Me}\u1160-\u11ff\u200b-\u200d\u2060-\u2064\ufeff]$/u

/** East Asian Wide and Fullwidth (UAX 11), by blocks, and everything that is a picture by itself. */
const wide =
  /^[\u1100-\u115f\u2329\u232a\u2e80-\u303e\u3041-\ua4cf\ua960-\ua97f\uac00-\ud7a3\uf900-\ufaff\ufe10-\ufe19\ufe30-\ufe6f\uff01-\uff60\uffe0-\uffe6\u{16fe0}-\u{18cff}\u{1b000}-\u{1b2ff}\u{1f200}-\u{1f265}\u{20000}-\u{3fffd}]$|^\p{Emoji_Presentation}$/u

/** Two of them are a flag, and take two columns together. */
const flagLetter = /^[\u{1f1e6}-\u{1f1ff}]$/u

/** The columns that one letter takes. */
export function letterWidth(letter: string): 0 | 1 | 2 {
  if (ascii.test(letter)) return 1
  if (none.test(letter)) return 0
  return wide.test(letter) && !flagLetter.test(letter) ? 2 : 1
}

/** The columns that a line takes. */
export function widthOf(line: string): number {
  if (ascii.test(line)) return line.length
  let width = 0
  for (const letter of line) width += letterWidth(letter)
  return width
}

/** In one line of at most so many columns; what is left out is three dots in one. */
export function cut(text: string, width: number): string {
  return cutLine(flat(beginning(text, width)), width)
}

/** Of a text of megabytes nobody sees more than so many columns of it; no letter is shorter than its share. */
export function beginning(text: string, width: number): string {
  const most = width * 64 + 4_096
  return text.length > most ? text.slice(0, most) : text
}

/** Of a line that is harmless already. */
export function cutLine(line: string, width: number): string {
  if (ascii.test(line) && line.length <= width) return line
  let used = 0
  let at = 0
  // Where it would have to end to leave room for the dots.
  let room = 0
  for (const letter of line) {
    used += letterWidth(letter)
    if (used > width) return width < 1 ? '' : `${line.slice(0, room)}…`
    at += letter.length
    if (used < width) room = at
  }
  return line
}

/** Of a path the end says more. */
export function cutStart(line: string, width: number): string {
  if (widthOf(line) <= width) return line
  const letters = Array.from(line)
  let from = letters.length
  for (let used = 1; from > 0; from--) {
    used += letterWidth(letters[from - 1] ?? '')
    if (used > width) break
  }
  return width < 1 ? '' : `…${letters.slice(from).join('')}`
}

export function padEnd(line: string, width: number): string {
  return line + ' '.repeat(Math.max(0, width - widthOf(line)))
}

export function many(count: number, one: string, several = `${one}s`): string {
  return `${count} ${count === 1 ? one : several}`
}

/** The first part of a UUID is enough to tell a few thousand agents apart. */
export function shortId(id: string): string {
  return id.slice(0, 8)
}

const ages = [
  ['d', 86_400],
  ['h', 3_600],
  ['m', 60],
] as const

export function ageOf(sinceMs: number, nowMs: number): string {
  const seconds = Math.max(0, Math.floor((nowMs - sinceMs) / 1_000))
  const [unit, size] = ages.find(([, size]) => seconds >= size) ?? ['s', 1]
  return `${Math.floor(seconds / size)}${unit}`
}

/** A duration as a person says it: `830 ms`, `4.2 s`, `3 min 20 s`. */
export function durationOf(ms: number): string {
  if (ms < 1_000) return `${Math.max(0, Math.round(ms))} ms`
  if (ms < 60_000) return `${(Math.floor(ms / 100) / 10).toFixed(1)} s`
  const seconds = Math.floor(ms / 1_000)
  const [hours, minutes] = [Math.floor(seconds / 3_600), Math.floor(seconds / 60) % 60]
  return hours > 0 ? `${hours} h ${minutes} min` : `${minutes} min ${seconds % 60} s`
}

const sizes = ['B', 'kB', 'MB', 'GB', 'TB'] as const

export function sizeOf(bytes: number): string {
  let value = bytes
  let unit = 0
  while (value >= 1_000 && unit < sizes.length - 1) {
    value /= 1_024
    unit += 1
  }
  return `${value >= 10 || unit === 0 ? Math.round(value) : value.toFixed(1)} ${sizes[unit] ?? ''}`
}
