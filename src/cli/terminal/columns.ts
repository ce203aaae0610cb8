import type { Paint } from './palette.ts'
import { beginning, cutLine, flat, widthOf } from './text.ts'

/** Tables. On a terminal no line is wider than the terminal. In a pipe nothing is cut, and all columns are present. */

export interface Column {
  readonly name: string
  /** The minimum width. By default a column is never cut, because a number that was cut would be another number. */
  readonly least?: number
  /** If the table is too wide with all columns at their minimum, the column with the lowest rank is left out. */
  readonly rank: number
  readonly isNumber?: boolean
}

export interface Cell {
  readonly text: string
  readonly paint?: Paint
}

const gap = '  '

/** Returns the heading and a line for each row. A cell may hold text that an agent wrote, so control characters are removed from it. */
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
  const widths = width === undefined ? natural.map((columnWidth) => columnWidth as number | undefined) : fitted(columns, natural, width)
  const last = widths.findLastIndex((columnWidth) => columnWidth !== undefined)
  const place = (text: string, at: number, paint: Paint = (text) => text): string => {
    const room = widths[at]
    if (room === undefined) return ''
    const shown = width === undefined ? text : cutLine(text, room)
    // The colour applies to the text, not to the padding. The last column has no padding.
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

/** The width of each column; undefined for a column that is left out. The column with the most slack is narrowed first. */
export function fitted(columns: readonly Column[], natural: readonly number[], width: number): readonly (number | undefined)[] {
  const shown = new Set(columns.keys())
  for (;;) {
    const widths = natural.map((columnWidth, at) => (shown.has(at) ? columnWidth : undefined))
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
    if (shown.size === 1) return widths.map((columnWidth) => columnWidth && Math.max(1, width))
    const lowest = [...shown].reduce((found, at) => ((columns[at]?.rank ?? 0) < (columns[found]?.rank ?? 0) ? at : found))
    shown.delete(lowest)
  }
}
