import { useLabels } from '../api/labels.tsx'
import { oneLine } from './format.ts'

export interface LeftOver {
  readonly kind: string
  readonly name: string
  /** The outcome for the resource, where it is not clear from the context. */
  readonly outcome?: string | undefined
  readonly error?: string | undefined
}

/** A list of resources that could not be released, each with its error. */
export function LeftOvers({ left }: { readonly left: readonly LeftOver[] }) {
  const { kindTitle } = useLabels()
  return (
    <ul>
      {left.map(({ kind, name, outcome, error }) => (
        <li key={`${kind} ${name}`}>
          {kindTitle(kind)} {oneLine(name, 120)}
          {outcome === undefined ? '' : `, ${outcome}`}
          {error === undefined ? '' : `: ${oneLine(error, 300)}`}
        </li>
      ))}
    </ul>
  )
}
