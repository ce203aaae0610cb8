import { useState } from 'react'
import { type Close, fetchCloses } from '../api/closes.ts'
import { type Loaded, useLoaded } from '../api/loaded.ts'
import { Ago } from '../pieces/ago.tsx'
import { Badge } from '../pieces/badge.tsx'
import { count, duration, plural, shortId } from '../pieces/format.ts'
import { Empty, Problem, Progress } from '../pieces/notes.tsx'
import { type Column, DataTable } from '../pieces/table.tsx'
import { ViewHead } from '../pieces/view-head.tsx'
import { queryText } from '../query.ts'
import { hrefOf, replaceQuery, usePlace } from '../routing.ts'
import { type Choice, choiceOf, Filters, isUnfiltered, noFilter } from './filters.tsx'
import { useLastData } from './last-data.ts'
import { Plots } from './plots.tsx'
import { type ScopeNames, useScopeNames } from './scope-names.ts'
import { StuckList } from './stuck.tsx'
import { reasonOf } from './words.ts'

/** The number of closes shown at first, and added by "Show older". */
const pageSize = 100

/** The number of closes in the plots, independent of the list. */
const plottedCloses = 100

const reloadEvents = ['cleanup:started', 'cleanup:report']

/** The poll interval while a close is in progress, so that its counts are current. */
const runningMs = 1_000

const columnsOf = (nameOfScope: ScopeNames): readonly Column<Close>[] => [
  { name: 'Scope', isMain: true, cell: (close) => <Subject close={close} nameOfScope={nameOfScope} /> },
  { name: 'Outcome', cell: (close) => <Outcome close={close} /> },
  { name: 'When', cell: ({ startedAt, state }) => (state === 'running' ? 'now' : <Ago at={startedAt} />), isNumber: true },
  { name: 'Duration', cell: ({ duration: took, state }) => `${duration(took)}${state === 'running' ? ' so far' : ''}`, isNumber: true },
  { name: 'Escalation', cell: ({ escalation }) => escalationText(escalation) },
  { name: 'Verified gone', cell: ({ released }) => count(released), isNumber: true },
  { name: 'Left', cell: ({ stuck }) => count(stuck), isNumber: true },
]

function Subject({ close: { scope, trigger }, nameOfScope }: { readonly close: Close; readonly nameOfScope: ScopeNames }) {
  const { text, isName } = nameOfScope(scope)
  return (
    <>
      {text}
      <span className="cleanup__reason">
        {isName && ` · ${scope.kind} ${shortId(scope.id)}`} · {reasonOf({ trigger, scope })}
      </span>
    </>
  )
}

function Outcome({ close: { state, success } }: { readonly close: Close }) {
  if (state === 'running') return <Badge tone="wait">in progress</Badge>
  return success ? <Badge tone="good">clean</Badge> : <Badge tone="alarm">not clean</Badge>
}

function escalationText(escalation: Close['escalation']): string {
  if (escalation === undefined) return '–'
  return escalation === 'kill' ? 'killed' : 'terminated'
}

/** The history of closes, with those in progress, the stuck resources, and the plots. */
export function CleanupView() {
  const { query } = usePlace()
  const choice = choiceOf(query)
  const [isRunning, setRunning] = useState(false)
  const filterKey = `${choice.trigger} ${choice.outcome}`
  // After a change of the filters, the list starts at the first page again.
  const [pages, setPages] = useState({ filterKey, limit: pageSize })
  const limit = pages.filterKey === filterKey ? pages.limit : pageSize
  const loaded = useLoaded(
    `closes ${filterKey} ${limit}`,
    async (signal) => {
      const found = await fetchCloses(limit, choice, signal)
      setRunning(found.some(({ state }) => state === 'running'))
      return { filterKey, found }
    },
    { on: reloadEvents, ...(isRunning && { everyMs: runningMs }) },
  )
  // Closes without resources are left out: they say nothing about durations, and nothing about stuck resources.
  const { data: withResources } = useLoaded(
    'closes with resources',
    (signal) => fetchCloses(plottedCloses, { hadResources: true }, signal),
    { on: reloadEvents },
  )
  const lastData = useLastData(loaded.data)
  const closes = lastData?.filterKey === filterKey ? lastData.found : undefined
  const nameOfScope = useScopeNames([...(closes ?? []), ...(withResources ?? [])].map(({ scope }) => scope))
  const isHistoryEmpty = closes?.length === 0 && isUnfiltered(choice)
  const change = ({ trigger, outcome }: Choice): void => replaceQuery(queryText({ trigger, outcome }))
  return (
    <>
      <ViewHead title="Cleanup" />
      {loaded.sentence !== undefined && <Problem onRetry={loaded.reload}>{loaded.sentence}</Problem>}
      <StuckList closes={withResources} />
      {isHistoryEmpty && (
        <Empty title="No closes yet.">
          <p>
            When an agent ends, is stopped or deleted, or a reset runs, its close is listed here: each resource that it released, how, and
            the proof that it is gone.
          </p>
          <p>
            <a href={hrefOf('agents')}>Launch an agent and stop it</a>
          </p>
        </Empty>
      )}
      {withResources !== undefined && <Plots closes={withResources} nameOfScope={nameOfScope} />}
      {lastData !== undefined && !isHistoryEmpty && <Filters choice={choice} onChoice={change} />}
      {closes === undefined && loaded.sentence === undefined && <Progress>Loading the history…</Progress>}
      {closes !== undefined && (
        <p className="hidden" role="status">
          {plural(closes.length, 'close')} shown
        </p>
      )}
      {closes?.length === 0 && !isHistoryEmpty && (
        <Empty title="No matching closes.">
          <button type="button" className="button" onClick={() => change(noFilter)}>
            Show all
          </button>
        </Empty>
      )}
      {closes !== undefined && closes.length > 0 && (
        <>
          <DataTable
            label="Closes"
            columns={columnsOf(nameOfScope)}
            rows={closes}
            keyOf={({ id }) => id}
            hrefOf={({ id }) => hrefOf('cleanup', id)}
          />
          <Older loaded={loaded} shown={closes.length} limit={limit} onMore={() => setPages({ filterKey, limit: limit + pageSize })} />
        </>
      )}
    </>
  )
}

interface OlderProps {
  readonly loaded: Loaded<unknown>
  readonly shown: number
  readonly limit: number
  readonly onMore: () => void
}

/** The button that loads older closes. It stays mounted in all of its states, so that it keeps the keyboard focus. */
function Older({ loaded, shown, limit, onMore }: OlderProps) {
  const isFailed = loaded.sentence !== undefined
  const isLoading = loaded.data === undefined && !isFailed
  const hasMore = shown >= limit
  if (!hasMore && limit === pageSize) return null
  const isIdle = isLoading || (!hasMore && !isFailed)
  return (
    <button
      type="button"
      className="button cleanup__more"
      aria-disabled={isIdle}
      onClick={() => {
        if (isFailed) loaded.reload()
        else if (!isIdle) onMore()
      }}
    >
      {isLoading ? 'Loading older closes…' : hasMore || isFailed ? `Show ${pageSize} older closes` : 'All closes are shown'}
    </button>
  )
}
