import { stripVTControlCharacters } from 'node:util'

/** Text of others on a terminal: its control characters are removed, its width is measured, and it is cut to fit. */

/** Overrides of the text direction. They make a line look different from its content. */
const directions = /[\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069]/g

/**
 * Joiners and skin tones of emoji. Terminals disagree on the width of combined emoji, and a line that is wider than measured
 * breaks a table. Without these characters each emoji is shown alone.
 */
const dressings = /(?<=\p{Emoji_Presentation}|\p{Extended_Pictographic})(\u200d|[\u{1f3fb}-\u{1f3ff}])+/gu

/** Removes control sequences, so that the text of an agent cannot move the cursor, set the title or clear the screen. */
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

/** Makes a text one harmless line. */
export function flat(text: string): string {
  return harmless(text).replaceAll(/\s+/g, ' ').trim()
}

const ascii = /^[\u0020-\u007e]*$/

/**
 * Combining marks and invisible characters, which take no column. Hangul vowels and finals are part of the syllable before them. The
 * soft hyphen and signs that stand before Arabic, Syriac and Kaithi numbers are format characters (Cf) too, but are shown.
 */
const zeroWidth = /^(?![\u00ad\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\u{110bd}\u{110cd}])[\p{Mn}\p{Me}\p{Cf}\u1160-\u11ff]$/u

/** Characters of two columns: East Asian Wide and Fullwidth (UAX 11 of Unicode 16), by blocks, and emoji. */
const wide =
  /^[\u1100-\u115f\u2329\u232a\u2630-\u2637\u268a-\u268f\u2e80-\u303e\u3041-\ua4cf\ua960-\ua97f\uac00-\ud7a3\uf900-\ufaff\ufe10-\ufe19\ufe30-\ufe6f\uff01-\uff60\uffe0-\uffe6\u{16fe0}-\u{18dff}\u{1aff0}-\u{1b2ff}\u{1d300}-\u{1d376}\u{1f200}-\u{1f265}\u{20000}-\u{3fffd}]$|^\p{Emoji_Presentation}$/u

/** Regional indicators. Two of them form a flag, which takes two columns. */
const flagLetter = /^[\u{1f1e6}-\u{1f1ff}]$/u

/** The columns that one character takes. */
export function letterWidth(letter: string): 0 | 1 | 2 {
  if (ascii.test(letter)) return 1
  if (zeroWidth.test(letter)) return 0
  return wide.test(letter) && !flagLetter.test(letter) ? 2 : 1
}

/** The columns that a line takes. */
export function widthOf(line: string): number {
  if (ascii.test(line)) return line.length
  let width = 0
  for (const letter of line) width += letterWidth(letter)
  return width
}

/** Makes a text one line of at most `width` columns. An ellipsis stands for the rest. */
export function cut(text: string, width: number): string {
  return cutLine(flat(beginning(text, width)), width)
}

/**
 * Limits a text before it is processed, so that a text of megabytes costs little. The limit is generous, because characters
 * without a width and removed sequences take no column.
 */
export function beginning(text: string, width: number): string {
  const most = width * 64 + 4_096
  return text.length > most ? text.slice(0, most) : text
}

/** Cuts the end of a line that is harmless already. */
export function cutLine(line: string, width: number): string {
  if (ascii.test(line) && line.length <= width) return line
  let used = 0
  let at = 0
  // The end of the text that leaves one column free for the ellipsis.
  let room = 0
  for (const letter of line) {
    used += letterWidth(letter)
    if (used > width) return width < 1 ? '' : `${line.slice(0, room)}…`
    at += letter.length
    if (used < width) room = at
  }
  return line
}

/** Cuts the start of a line. The end of a path is more useful than its start. */
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

/** A duration for people: `830 ms`, `4.2 s`, `3 min 20 s`. */
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
