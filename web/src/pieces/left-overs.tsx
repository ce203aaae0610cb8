import { oneLine } from './format.ts'

export interface LeftOver {
  readonly kind: string
  readonly name: string
  /** What became of it, where that is not said already. */
  readonly outcome?: string | undefined
  readonly error?: string | undefined
}

/** What could not be released, thing by thing, each with why. */
export function LeftOvers({ left }: { readonly left: readonly LeftOver[] }) {
  return (
    <ul>
      {left.map(({ kind, name, outcome, error }) => (
        <li key={`${kind} ${name}`}>
          {kind} {oneLine(name, 120)}
          {outcome === undefined ? '' : `, ${outcome}`}
          {error === undefined ? '' : `: ${oneLine(error, 300)}`}
        </li>
      ))}
    </ul>
  )
}
