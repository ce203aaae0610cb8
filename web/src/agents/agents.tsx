import { Fragment, type ReactNode, useEffect, useMemo, useRef, useState } from 'react'
import { fetchUsage } from '../api/calls.ts'
import { ApiError } from '../api/client.ts'
import { type Labels, useLabels } from '../api/labels.tsx'
import { useLoaded } from '../api/loaded.ts'
import type { Agent, Usage } from '../api/shapes.ts'
import { Age } from '../pieces/age.tsx'
import { StatusBadge } from '../pieces/badge.tsx'
import { bytes, count, plural, shortId } from '../pieces/format.ts'
import { Empty, Problem, Progress } from '../pieces/notes.tsx'
import { type Column, DataTable, isTyping } from '../pieces/table.tsx'
import { ViewHead } from '../pieces/view-head.tsx'
import { hrefOf, placeBefore, replaceQuery, usePlace } from '../routing.ts'
import { type Filter, filterOf, matches, queryOf } from './filter.ts'
import { Filters } from './filters.tsx'
import { FirstSteps } from './first-steps.tsx'
import { LaunchDialog } from './launch.tsx'
import { nameOf } from './names.ts'
import { Tiles } from './tiles.tsx'
import { mostAgents, useAgents } from './use-agents.ts'

/** The list of all agents, with filters and the launch form. */
export function AgentsView() {
  const { agents, isLoaded, isCut, problem, reload } = useAgents()
  const { usage, usageProblem } = useUsage()
  const labels = useLabels()
  const { query } = usePlace()
  const filter = useMemo(() => filterOf(query), [query])
  const [cameFrom] = useState(() => (placeBefore().view === 'agents' ? placeBefore().id : undefined))
  const [isLaunching, setLaunching] = useState(false)
  const search = useRef<HTMLInputElement>(null)
  const change = (next: Filter): void => replaceQuery(queryOf(next))
  useEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      if (event.key !== '/' || isTyping(event.target) || document.querySelector('dialog[open]')) return
      event.preventDefault()
      search.current?.focus()
    }
    document.addEventListener('keydown', onKey)
    return () => document.removeEventListener('keydown', onKey)
  }, [])
  const shown = useMemo(() => agents.filter((agent) => matches(agent, filter)), [agents, filter])
  const columns = useMemo(() => columnsOf(usage, labels), [usage, labels])
  return (
    <>
      <ViewHead title="Agents">
        <button type="button" className="button button--primary" onClick={() => setLaunching(true)}>
          Launch an agent
        </button>
      </ViewHead>
      {problem !== undefined && <Problem onRetry={reload}>{problem}</Problem>}
      {problem === undefined && usageProblem !== undefined && (
        <Problem>Memory and process counts are not available: {usageProblem}</Problem>
      )}
      {agents.length > 0 && <Tiles agents={agents} usage={usage} />}
      {agents.length > 0 && <Filters agents={agents} shown={shown.length} filter={filter} onChange={change} search={search} />}
      {!isLoaded && problem === undefined && agents.length === 0 && <Progress>Loading the agents</Progress>}
      {isLoaded && agents.length === 0 && <FirstSteps onLaunch={() => setLaunching(true)} />}
      {agents.length > 0 && shown.length === 0 && (
        <Empty title="No matching agents.">
          <p>
            The filters hide {plural(agents.length, 'agent')}.{' '}
            <button type="button" className="button button--small" onClick={() => change(filterOf(new URLSearchParams()))}>
              Show all
            </button>
          </p>
        </Empty>
      )}
      {shown.length > 0 && <DataTable label="Agents" columns={columns} rows={shown} keyOf={keyOf} hrefOf={placeOf} focusKey={cameFrom} />}
      {isCut && <p className="quiet">Only the newest {count(mostAgents)} agents are shown. "ebb ps" lists all of them.</p>}
      {isLaunching && <LaunchDialog onClose={() => setLaunching(false)} />}
    </>
  )
}

const keyOf = ({ id }: Agent): string => id
const placeOf = ({ id }: Agent): string => hrefOf('agents', id)

/** Memory and processes per agent. Empty for a server that does not offer the route. */
function useUsage(): { readonly usage: ReadonlyMap<string, Usage>; readonly usageProblem: string | undefined } {
  const { data, sentence } = useLoaded(
    'usage',
    async (signal) => {
      try {
        return new Map((await fetchUsage(signal)).map((entry) => [entry.agentId, entry]))
      } catch (error) {
        if (error instanceof ApiError && (error.status === 404 || error.status === 400)) return new Map<string, Usage>()
        throw error
      }
    },
    { everyMs: 2_000 },
  )
  return { usage: data ?? none, usageProblem: sentence }
}

const none: ReadonlyMap<string, Usage> = new Map()

function columnsOf(usage: ReadonlyMap<string, Usage>, { placementTitle }: Labels): readonly Column<Agent>[] {
  return [
    { name: 'Status', cell: ({ status }) => <StatusBadge status={status} /> },
    {
      name: 'Agent',
      isMain: true,
      cell: (agent) => (
        <>
          <bdi>{nameOf(agent)}</bdi> <span className="agent-labels">{labelsOf(agent)}</span>
        </>
      ),
    },
    { name: 'Provider', cell: ({ type }) => type },
    { name: 'Placement', cell: ({ placement }) => placementTitle(placement) },
    { name: 'Age', isNumber: true, cell: ({ createdAt }) => <Age at={createdAt} /> },
    { name: 'Messages', isNumber: true, cell: ({ session }) => count(session.messageCount) },
    { name: 'Memory', isNumber: true, cell: ({ id }) => memoryOf(usage.get(id)) },
  ]
}

function labelsOf(agent: Agent): ReactNode {
  const { id, name = shortId(id), namespace, requestId = '', taskId = '' } = agent
  // `nameOf` shows the agent's name in Ebb if the agent has no other name. Then the label does not repeat that name.
  const own = nameOf(agent).endsWith(name) ? '' : name
  const labels = [own, namespace === 'default' ? '' : namespace, requestId, taskId]
  return labels
    .filter((label) => label !== '')
    .map((label, index) => (
      // biome-ignore lint/suspicious/noArrayIndexKey: two labels may have the same text, and labels are never reordered
      <Fragment key={index}>
        {index > 0 && ' · '}
        <bdi>{label}</bdi>
      </Fragment>
    ))
}

function memoryOf(usage: Usage | undefined): string {
  return usage === undefined || usage.processes === 0 ? '–' : bytes(usage.rssBytes)
}
