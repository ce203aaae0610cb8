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
import { type Calling, useCalling } from './calling.ts'
import { type Choice, choiceOf, everything, Filters, isEverything } from './filters.tsx'
import { useKept } from './kept.ts'
import { Plots } from './plots.tsx'
import { StuckList } from './stuck.tsx'
import { whyOf } from './words.ts'

/** So many at first, and so many more at a time. */
const pageSize = 100

/** So many are plotted, whatever is listed. */
const plotted = 100

const news = ['cleanup:started', 'cleanup:report']

/** While something is under way its counts follow. */
const runningMs = 1_000

const columnsOf = (calling: Calling): readonly Column<Close>[] => [
  { name: 'What was closed', isMain: true, cell: (close) => <Subject close={close} calling={calling} /> },
  { name: 'Outcome', cell: (close) => <Outcome close={close} /> },
  { name: 'When', cell: ({ startedAt, state }) => (state === 'running' ? 'now' : <Ago at={startedAt} />), isNumber: true },
  { name: 'Took', cell: ({ duration: took, state }) => `${duration(took)}${state === 'running' ? ' so far' : ''}`, isNumber: true },
  { name: 'Escalation', cell: ({ escalation }) => escalationWords(escalation) },
  { name: 'Proven gone', cell: ({ released }) => count(released), isNumber: true },
  { name: 'Left', cell: ({ stuck }) => count(stuck), isNumber: true },
]

function Subject({ close: { scope, trigger }, calling }: { readonly close: Close; readonly calling: Calling }) {
  const { text, isName } = calling(scope)
  return (
    <>
      {text}
      <span className="cleanup__why">
        {isName && ` · ${scope.kind} ${shortId(scope.id)}`} · {whyOf({ trigger, scope })}
      </span>
    </>
  )
}

function Outcome({ close: { state, success } }: { readonly close: Close }) {
  if (state === 'running') return <Badge tone="wait">under way</Badge>
  return success ? <Badge tone="good">clean</Badge> : <Badge tone="alarm">not clean</Badge>
}

function escalationWords(escalation: Close['escalation']): string {
  if (escalation === undefined) return '–'
  return escalation === 'kill' ? 'to a kill' : 'told to end'
}

/** Every close: what is under way, what is stuck, and what was. */
export function CleanupView() {
  const { query } = usePlace()
  const choice = choiceOf(query)
  const [isRunning, setRunning] = useState(false)
  const sort = `${choice.trigger} ${choice.outcome}`
  // Of another sort it is the first page again.
  const [pages, setPages] = useState({ sort, limit: pageSize })
  const limit = pages.sort === sort ? pages.limit : pageSize
  const loaded = useLoaded(
    `closes ${sort} ${limit}`,
    async (signal) => {
      const found = await fetchCloses(limit, choice, signal)
      setRunning(found.some(({ state }) => state === 'running'))
      return { sort, found }
    },
    { on: news, ...(isRunning && { everyMs: runningMs }) },
  )
  // Where nothing was there, nothing was cleaned: that says nothing about how long it takes, nor about what is stuck.
  const { data: telling } = useLoaded('telling closes', (signal) => fetchCloses(plotted, { hadResources: true }, signal), { on: news })
  const kept = useKept(loaded.data)
  const closes = kept?.sort === sort ? kept.found : undefined
  const calling = useCalling([...(closes ?? []), ...(telling ?? [])].map(({ scope }) => scope))
  const isNothing = closes?.length === 0 && isEverything(choice)
  const change = ({ trigger, outcome }: Choice): void => replaceQuery(queryText({ trigger, outcome }))
  return (
    <>
      <ViewHead title="Cleanup" />
      {loaded.sentence !== undefined && <Problem onRetry={loaded.reload}>{loaded.sentence}</Problem>}
      <StuckList closes={telling} />
      {isNothing && (
        <Empty title="Nothing was closed yet.">
          <p>
            Whenever an agent ends, is stopped or deleted, or a reset runs, its close stands here: each thing that it took away, how, and
            what proves that it is gone.
          </p>
          <p>
            <a href={hrefOf('agents')}>Launch an agent, and stop it</a>
          </p>
        </Empty>
      )}
      {telling !== undefined && <Plots closes={telling} calling={calling} />}
      {kept !== undefined && !isNothing && <Filters choice={choice} onChoice={change} />}
      {closes === undefined && loaded.sentence === undefined && <Progress>Reading the history…</Progress>}
      {closes !== undefined && (
        <p className="hidden" role="status">
          {plural(closes.length, 'close')} shown
        </p>
      )}
      {closes?.length === 0 && !isNothing && (
        <Empty title="No close is like that.">
          <button type="button" className="button" onClick={() => change(everything)}>
            Show all
          </button>
        </Empty>
      )}
      {closes !== undefined && closes.length > 0 && (
        <>
          <DataTable
            label="Closes"
            columns={columnsOf(calling)}
            rows={closes}
            keyOf={({ id }) => id}
            hrefOf={({ id }) => hrefOf('cleanup', id)}
          />
          <Older loaded={loaded} shown={closes.length} limit={limit} onMore={() => setPages({ sort, limit: limit + pageSize })} />
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

/** It stays where it is, whatever it says: who is on it is not thrown to the top of the page. */
function Older({ loaded, shown, limit, onMore }: OlderProps) {
  const isFailed = loaded.sentence !== undefined
  const isAsking = loaded.data === undefined && !isFailed
  const hasMore = shown >= limit
  if (!hasMore && limit === pageSize) return null
  const isIdle = isAsking || (!hasMore && !isFailed)
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
      {isAsking ? 'Reading older ones…' : hasMore || isFailed ? `Show ${pageSize} older ones` : 'All of them are shown'}
    </button>
  )
}
