import type { Paint } from './palette.ts'
import { beginning, cutLine, flat, widthOf } from './text.ts'

/** Tables: on a terminal no line is wider than it; in a pipe nothing is cut, and the columns are always the same ones. */

export interface Column {
  readonly name: string
  /** It is not made narrower than this; a number that was cut would be another number. By default as wide as it is. */
  readonly least?: number
  /** Where all are at their least and it is still too wide, the lowest goes. */
  readonly rank: number
  readonly isNumber?: boolean
}

export interface Cell {
  readonly text: string
  readonly paint?: Paint
}

const gap = '  '

/** The heading and a line for each row; the text of a cell is anybody's. */
export function layOut(
  columns: readonly Column[],
  rows: readonly (readonly Cell[])[],
  width: number | undefined,
  heading: Paint,
): readonly string[] {
  const cells = rows.map((row) =>
    row.map((cell) => ({ ...cell, text: flat(width === undefined ? cell.text : beginning(cell.text, width)) })),
  )
  const natural = columns.map(({ name }, at) => cells.reduce((most, row) => Math.max(most, widthOf(row[at]?.text ?? '')), widthOf(name)))
  const widths = width === undefined ? natural.map((one) => one as number | undefined) : fitted(columns, natural, width)
  const last = widths.findLastIndex((one) => one !== undefined)
  const place = (text: string, at: number, paint: Paint = (one) => one): string => {
    const room = widths[at]
    if (room === undefined) return ''
    const shown = width === undefined ? text : cutLine(text, room)
    // The colour is for the words, not for the room around them; nothing follows the last column.
    const padding = Math.max(0, room - widthOf(shown))
    if (columns[at]?.isNumber) return ' '.repeat(padding) + paint(shown)
    return paint(shown) + (at === last ? '' : ' '.repeat(padding))
  }
  const line = (row: readonly Cell[]): string =>
    row
      .flatMap(({ text, paint }, at) => (widths[at] === undefined ? [] : [place(text, at, paint)]))
      .join(gap)
      .trimEnd()
  return [line(columns.map(({ name }) => ({ text: name, paint: heading }))), ...cells.map(line)]
}

/** The widths, undefined for a column for which there is no room. The one that can best afford it gives way. */
export function fitted(columns: readonly Column[], natural: readonly number[], width: number): readonly (number | undefined)[] {
  const shown = new Set(columns.keys())
  for (;;) {
    const widths = natural.map((one, at) => (shown.has(at) ? one : undefined))
    const least = (at: number): number => Math.min(natural[at] ?? 0, columns[at]?.least ?? natural[at] ?? 0)
    let over = [...shown].reduce((sum, at) => sum + (natural[at] ?? 0) + gap.length, -gap.length) - width
    while (over > 0) {
      const slack = (at: number): number => (widths[at] ?? 0) - least(at)
      const widest = [...shown].reduce((best, at) => (slack(at) > slack(best) ? at : best))
      if (slack(widest) <= 0) break
      const given = Math.min(over, slack(widest))
      widths[widest] = (widths[widest] ?? 0) - given
      over -= given
    }
    if (over <= 0) return widths
    if (shown.size === 1) return widths.map((one) => one && Math.max(1, width))
    const lowest = [...shown].reduce((found, at) => ((columns[at]?.rank ?? 0) < (columns[found]?.rank ?? 0) ? at : found))
    shown.delete(lowest)
  }
}
