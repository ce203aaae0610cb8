/** What the environment says of how things may look on a terminal. */
export interface Appearance {
  /** Colours may be written to a stream that is, or is not, a terminal. */
  hasColour(isTerminal: boolean): boolean
  /** The terminal can take back a line and redraw it. */
  readonly canRedraw: boolean
}

/** `NO_COLOR` (no-color.org: any text but the empty one) beats `FORCE_COLOR`, which beats a terminal that is called dumb. */
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
