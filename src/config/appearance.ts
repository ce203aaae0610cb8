/** What the environment allows for output on a terminal. */
export interface Appearance {
  /** Whether colours may be written to a stream. */
  hasColour(isTerminal: boolean): boolean
  /** Whether the terminal can erase a line and redraw it. */
  readonly canRedraw: boolean
}

/** `NO_COLOR` (no-color.org: any text except the empty one) overrides `FORCE_COLOR`, which overrides `TERM=dumb`. */
export function readAppearance(env: NodeJS.ProcessEnv = process.env): Appearance {
  const { NO_COLOR: never, FORCE_COLOR: always, TERM: term } = env
  const canRedraw = term !== 'dumb'
  const isForced = always !== undefined && always !== '' && always !== '0' && always !== 'false'
  return {
    canRedraw,
    hasColour: (isTerminal) => {
      if (never) return false
      if (isForced) return true
      return isTerminal && canRedraw && always !== '0' && always !== 'false'
    },
  }
}
