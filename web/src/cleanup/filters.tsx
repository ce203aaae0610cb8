import { triggerTexts } from './words.ts'

export interface Choice {
  readonly trigger: string
  readonly outcome: string
}

export const noFilter: Choice = { trigger: '', outcome: '' }

export function isUnfiltered({ trigger, outcome }: Choice): boolean {
  return trigger === '' && outcome === ''
}

const outcomes = { running: 'in progress', clean: 'clean', 'not-clean': 'not clean', escalated: 'escalated' } as const

/** The filter in the address. Unknown values are ignored. */
export function choiceOf(query: URLSearchParams): Choice {
  const known = (name: string, values: object): string => {
    const value = query.get(name) ?? ''
    return Object.hasOwn(values, value) ? value : ''
  }
  return { trigger: known('trigger', triggerTexts), outcome: known('outcome', outcomes) }
}

export interface FiltersProps {
  readonly choice: Choice
  readonly onChoice: (choice: Choice) => void
}

export function Filters({ choice, onChoice }: FiltersProps) {
  return (
    <search className="cleanup__filters" aria-label="Filter closes">
      <label>
        <span className="field__label">Reason</span>
        <select value={choice.trigger} onChange={({ target }) => onChoice({ ...choice, trigger: target.value })}>
          <option value="">any reason</option>
          {Object.entries(triggerTexts).map(([value, text]) => (
            <option key={value} value={value}>
              {text}
            </option>
          ))}
        </select>
      </label>
      <label>
        <span className="field__label">Outcome</span>
        <select value={choice.outcome} onChange={({ target }) => onChoice({ ...choice, outcome: target.value })}>
          <option value="">any outcome</option>
          {Object.entries(outcomes).map(([value, text]) => (
            <option key={value} value={value}>
              {text}
            </option>
          ))}
        </select>
      </label>
    </search>
  )
}
