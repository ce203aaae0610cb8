/** Numbers and times as people read them. */

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

/** How long something took: `8 ms`, `1.4 s`, `3 min 5 s`. */
export function duration(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`
  if (ms < 10_000) return `${(ms / 1_000).toFixed(1)} s`
  if (ms < 60_000) return `${Math.floor(ms / 1_000)} s`
  if (ms < 3_600_000) return parts(ms, 60_000, 'min', 1_000, 's')
  if (ms < 86_400_000) return parts(ms, 3_600_000, 'h', 60_000, 'min')
  return parts(ms, 86_400_000, 'd', 3_600_000, 'h')
}

function parts(ms: number, one: number, oneName: string, other: number, otherName: string): string {
  const rest = Math.floor((ms % one) / other)
  return `${Math.floor(ms / one)} ${oneName}${rest === 0 ? '' : ` ${rest} ${otherName}`}`
}

/** How old something is: one unit is enough. */
export function age(ms: number): string {
  if (ms < 1_000) return 'now'
  if (ms < 60_000) return `${Math.floor(ms / 1_000)} s`
  if (ms < 3_600_000) return `${Math.floor(ms / 60_000)} min`
  if (ms < 86_400_000) return `${Math.floor(ms / 3_600_000)} h`
  return `${Math.floor(ms / 86_400_000)} d`
}

const clock = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' })
const calendar = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit', second: '2-digit' })

/** `14:03:21` today, with the date on another day. */
export function moment(at: string | number): string {
  const date = new Date(at)
  if (Number.isNaN(date.getTime())) return String(at)
  return (date.toDateString() === new Date().toDateString() ? clock : calendar).format(date)
}

/** Colours and movements of a terminal, and what sets its title (ECMA-48: CSI, OSC and the two-byte ones). */
const escapeSign = String.fromCharCode(0x1b)
const bellSign = String.fromCharCode(0x07)
const terminalCodes = new RegExp(
  `${escapeSign}(?:\\[[0-?]*[ -/]*[@-~]|\\][^${bellSign}${escapeSign}]*(?:${bellSign}|${escapeSign}\\\\)?|[@-Z\\\\-_])`,
  'g',
)
/** Control characters besides tab and newline, and what turns the direction of writing. */
const invisible = /[^\P{Cc}\t\n]|[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu

/**
 * What an agent wrote, as text that shows itself as it is: without the colours of a terminal, and with everything that would
 * hide or reorder what stands beside it made visible.
 */
export function plainText(text: string): string {
  return text
    .replaceAll('\r\n', '\n')
    .replaceAll(terminalCodes, '')
    .replaceAll(invisible, (sign) => {
      const code = sign.charCodeAt(0)
      if (code < 0x20) return String.fromCharCode(0x2400 + code)
      return code === 0x7f ? '\u2421' : `⟨U+${code.toString(16).toUpperCase().padStart(4, '0')}⟩`
    })
}

const signs = new Intl.Segmenter('en')

/** The beginning of a text, no longer than `most`; what people see as one sign is not taken apart. */
export function beginning(text: string, most: number): string {
  // The sign that would be cut is within what is looked at, however long the text is.
  return text.length <= most ? text : text.slice(0, signs.segment(text.slice(0, most + 64)).containing(most)?.index ?? most)
}

/** Its end, likewise. */
function ending(text: string, most: number): string {
  const from = text.length - most
  const sign = from > 0 ? signs.segment(text).containing(from) : undefined
  return sign === undefined ? text : text.slice(sign.index === from ? from : sign.index + sign.segment.length)
}

/** One line, no longer than `most`, for tables and titles. */
export function oneLine(text: string, most = 160): string {
  const line = plainText(beginning(text, most * 4))
    .replaceAll(/\s+/g, ' ')
    .trim()
  return line.length > most ? `${beginning(line, most - 1)}…` : line
}

/** Of a UUID the beginning is enough to know it by; a name that somebody gave stays whole. */
export function shortId(id: string): string {
  return /^[0-9a-f]{8}-/.test(id) ? id.slice(0, 8) : id
}

/** A path is known by its end; the rest is for who asks. */
export function shortName(name: string): string {
  if (!name.startsWith('/')) return oneLine(name, 300)
  const end = oneLine(name.slice(name.lastIndexOf('/') + 1) || name, 300)
  return end.length > 36 ? `…${ending(end, 30)}` : `…/${end}`
}
