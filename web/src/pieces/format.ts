/** Formatting of numbers, times and untrusted text for display. */

const sizes = ['B', 'kB', 'MB', 'GB', 'TB'] as const

export function bytes(count: number): string {
  let value = count
  let size = 0
  while (value >= 1_000 && size < sizes.length - 1) {
    value /= 1_000
    size += 1
  }
  return `${size === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${sizes[size]}`
}

const number = new Intl.NumberFormat('en')

export function count(value: number): string {
  return number.format(value)
}

/** `2 agents`, `1 agent`, `no agents`. */
export function plural(value: number, word: string, words = `${word}s`): string {
  return `${value === 0 ? 'no' : count(value)} ${value === 1 ? word : words}`
}

/** A duration, such as `8 ms`, `1.4 s` or `3 min 5 s`. */
export function duration(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`
  if (ms < 10_000) return `${(ms / 1_000).toFixed(1)} s`
  if (ms < 60_000) return `${Math.floor(ms / 1_000)} s`
  if (ms < 3_600_000) return parts(ms, 60_000, 'min', 1_000, 's')
  if (ms < 86_400_000) return parts(ms, 3_600_000, 'h', 60_000, 'min')
  return parts(ms, 86_400_000, 'd', 3_600_000, 'h')
}

function parts(ms: number, unit: number, unitName: string, smaller: number, smallerName: string): string {
  const rest = Math.floor((ms % unit) / smaller)
  return `${Math.floor(ms / unit)} ${unitName}${rest === 0 ? '' : ` ${rest} ${smallerName}`}`
}

/** An age in a single unit, such as `3 min`. */
export function age(ms: number): string {
  if (ms < 1_000) return 'now'
  if (ms < 60_000) return `${Math.floor(ms / 1_000)} s`
  if (ms < 3_600_000) return `${Math.floor(ms / 60_000)} min`
  if (ms < 86_400_000) return `${Math.floor(ms / 3_600_000)} h`
  return `${Math.floor(ms / 86_400_000)} d`
}

const clock = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' })
const calendar = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit', second: '2-digit' })

/** A time such as `14:03:21`. Times of another day include the date. */
export function moment(at: string | number): string {
  const date = new Date(at)
  if (Number.isNaN(date.getTime())) return String(at)
  return (date.toDateString() === new Date().toDateString() ? clock : calendar).format(date)
}

/** Terminal escape sequences for colours, cursor movements and titles (ECMA-48: CSI, OSC and two-byte sequences). */
const escapeCharacter = String.fromCharCode(0x1b)
const bellCharacter = String.fromCharCode(0x07)
const terminalCodes = new RegExp(
  `${escapeCharacter}(?:\\[[0-?]*[ -/]*[@-~]|\\][^${bellCharacter}${escapeCharacter}]*(?:${bellCharacter}|${escapeCharacter}\\\\)?|[@-Z\\\\-_])`,
  'g',
)
/** Control characters other than tab and newline, and characters that change the writing direction. */
const invisible = /[^\P{Cc}\t\n]|[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu

/**
 * Makes text of an agent safe to display: removes terminal escape sequences, and replaces characters that would hide or reorder the
 * text around them with visible ones.
 */
export function plainText(text: string): string {
  return text
    .replaceAll('\r\n', '\n')
    .replaceAll(terminalCodes, '')
    .replaceAll(invisible, (character) => {
      const code = character.charCodeAt(0)
      if (code < 0x20) return String.fromCharCode(0x2400 + code)
      return code === 0x7f ? '\u2421' : `⟨U+${code.toString(16).toUpperCase().padStart(4, '0')}⟩`
    })
}

const graphemes = new Intl.Segmenter('en')

/** The beginning of a text, at most `most` characters long. Graphemes, such as emoji sequences, are not split. */
export function beginning(text: string, most: number): string {
  // 64 characters beyond the cut are enough to find the boundary of the grapheme there, and bound the work for a long text.
  return text.length <= most ? text : text.slice(0, graphemes.segment(text.slice(0, most + 64)).containing(most)?.index ?? most)
}

/** The end of a text, at most `most` characters long. Graphemes are not split. */
function ending(text: string, most: number): string {
  const from = text.length - most
  const grapheme = from > 0 ? graphemes.segment(text).containing(from) : undefined
  return grapheme === undefined ? text : text.slice(grapheme.index === from ? from : grapheme.index + grapheme.segment.length)
}

/** The text on one line, at most `most` characters long, for tables and titles. */
export function oneLine(text: string, most = 160): string {
  const line = plainText(beginning(text, most * 4))
    .replaceAll(/\s+/g, ' ')
    .trim()
  return line.length > most ? `${beginning(line, most - 1)}…` : line
}

/** The first eight characters of a UUID. Other ids are not shortened. */
export function shortId(id: string): string {
  return /^[0-9a-f]{8}-/.test(id) ? id.slice(0, 8) : id
}

/** The last part of a path, shortened at its start. Other names are not shortened to their end. */
export function shortName(name: string): string {
  if (!name.startsWith('/')) return oneLine(name, 300)
  const end = oneLine(name.slice(name.lastIndexOf('/') + 1) || name, 300)
  return end.length > 36 ? `…${ending(end, 30)}` : `…/${end}`
}
