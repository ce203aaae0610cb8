import type { Appearance } from '../../config/appearance.ts'
import { colours, noColours, type Palette } from './palette.ts'

/** How something may look on one stream. */
export interface Face {
  /** The columns of the terminal; undefined where it is none, and nothing is cut. */
  readonly width: number | undefined
  readonly palette: Palette
}

/** What a terminal is taken for that does not say how wide it is, as a serial line does not. */
const usualColumns = 80

/** A table in fewer columns is none, and whoever claims more than this is not a screen. */
const [fewest, most] = [20, 1_000]

export function columnsOf({ columns }: { readonly columns?: number }): number {
  return columns === undefined || !(columns > 0) ? usualColumns : Math.min(most, Math.max(fewest, Math.floor(columns)))
}

export function faceOf(stream: NodeJS.WriteStream, appearance: Appearance): Face {
  return {
    width: stream.isTTY ? columnsOf(stream) : undefined,
    palette: appearance.hasColour(stream.isTTY) ? colours : noColours,
  }
}
