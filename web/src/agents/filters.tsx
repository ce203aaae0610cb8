import { type RefObject, useMemo } from 'react'
import type { Agent } from '../api/shapes.ts'
import { plural } from '../pieces/format.ts'
import type { Filter } from './filter.ts'

interface FiltersProps {
  readonly agents: readonly Agent[]
  readonly shown: number
  readonly filter: Filter
  readonly onChange: (filter: Filter) => void
  readonly search: RefObject<HTMLInputElement | null>
}

const statuses = ['active', 'running', 'stuck', 'ended', 'completed', 'failed', 'terminated'] as const

export function Filters({ agents, shown, filter, onChange, search }: FiltersProps) {
  const providers = useMemo(() => [...new Set(agents.map(({ type }) => type))].sort(), [agents])
  const namespaces = useMemo(() => [...new Set(agents.map(({ namespace }) => namespace))].sort(), [agents])
  return (
    <search className="filters">
      <label className="filters__search">
        <span className="hidden">Search in prompts, names and ids</span>
        <input
          ref={search}
          type="search"
          placeholder="Search prompts, names, ids ( / )"
          value={filter.search}
          onChange={(event) => onChange({ ...filter, search: event.target.value })}
        />
      </label>
      <Choice
        label="Status"
        all="any status"
        value={filter.status}
        values={statuses}
        onChange={(status) => onChange({ ...filter, status })}
      />
      <Choice
        label="Provider"
        all="any provider"
        value={filter.provider}
        values={providers}
        onChange={(provider) => onChange({ ...filter, provider })}
      />
      {(namespaces.length > 1 || filter.namespace !== '') && (
        <Choice
          label="Namespace"
          all="any namespace"
          value={filter.namespace}
          values={namespaces}
          onChange={(namespace) => onChange({ ...filter, namespace })}
        />
      )}
      <output className="filters__count">{shown === agents.length ? plural(shown, 'agent') : `${shown} of ${agents.length} agents`}</output>
    </search>
  )
}

interface ChoiceProps {
  readonly label: string
  readonly all: string
  readonly value: string
  readonly values: readonly string[]
  readonly onChange: (value: string) => void
}

function Choice({ label, all, value, values, onChange }: ChoiceProps) {
  return (
    <label>
      <span className="hidden">{label}</span>
      <select value={value} onChange={(event) => onChange(event.target.value)}>
        <option value="">{all}</option>
        {[...new Set([...values, ...(value === '' ? [] : [value])])].map((option) => (
          <option key={option} value={option}>
            {option}
          </option>
        ))}
      </select>
    </label>
  )
}
