import type { Appearance } from '../../config/appearance.ts'
import { colours, noColours, type Palette } from './palette.ts'

/** The width and colours of one output stream. */
export interface Style {
  /** The columns of the terminal. Undefined if the stream is no terminal; then nothing is cut. */
  readonly width: number | undefined
  readonly palette: Palette
}

/** The width of a terminal that does not report one, such as a serial line. */
const defaultColumns = 80

/** A table does not fit into fewer columns than this, and no screen has more. */
const [minColumns, maxColumns] = [20, 1_000]

export function columnsOf({ columns }: { readonly columns?: number }): number {
  return columns === undefined || !(columns > 0) ? defaultColumns : Math.min(maxColumns, Math.max(minColumns, Math.floor(columns)))
}

export function styleOf(stream: NodeJS.WriteStream, appearance: Appearance): Style {
  return {
    width: stream.isTTY ? columnsOf(stream) : undefined,
    palette: appearance.hasColour(stream.isTTY) ? colours : noColours,
  }
}
