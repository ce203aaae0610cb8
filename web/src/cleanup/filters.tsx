import { triggerWords } from './words.ts'

export interface Choice {
  readonly trigger: string
  readonly outcome: string
}

export const everything: Choice = { trigger: '', outcome: '' }

export function isEverything({ trigger, outcome }: Choice): boolean {
  return trigger === '' && outcome === ''
}

const outcomes = { running: 'under way', clean: 'clean', 'not-clean': 'not clean', escalated: 'escalated' } as const

/** What the address asks for, as far as there is such a thing. */
export function choiceOf(query: URLSearchParams): Choice {
  const known = (name: string, words: object): string => {
    const value = query.get(name) ?? ''
    return Object.hasOwn(words, value) ? value : ''
  }
  return { trigger: known('trigger', triggerWords), outcome: known('outcome', outcomes) }
}

export interface FiltersProps {
  readonly choice: Choice
  readonly onChoice: (choice: Choice) => void
}

export function Filters({ choice, onChoice }: FiltersProps) {
  return (
    <search className="cleanup__filters" aria-label="Which closes">
      <label>
        <span className="field__label">Why</span>
        <select value={choice.trigger} onChange={({ target }) => onChoice({ ...choice, trigger: target.value })}>
          <option value="">every reason</option>
          {Object.entries(triggerWords).map(([value, words]) => (
            <option key={value} value={value}>
              {words}
            </option>
          ))}
        </select>
      </label>
      <label>
        <span className="field__label">Outcome</span>
        <select value={choice.outcome} onChange={({ target }) => onChoice({ ...choice, outcome: target.value })}>
          <option value="">every outcome</option>
          {Object.entries(outcomes).map(([value, words]) => (
            <option key={value} value={value}>
              {words}
            </option>
          ))}
        </select>
      </label>
    </search>
  )
}
