import { useState } from 'react'
import { fetchHealth, fetchStatus, type WorldStatus } from '../api/closes.ts'
import { useLoaded } from '../api/loaded.ts'
import { useKept } from '../cleanup/kept.ts'
import { Ago } from '../pieces/ago.tsx'
import { Badge } from '../pieces/badge.tsx'
import { oneLine } from '../pieces/format.ts'
import { Problem, Progress } from '../pieces/notes.tsx'
import { ViewHead } from '../pieces/view-head.tsx'
import { queryText } from '../query.ts'
import { replaceQuery, usePlace } from '../routing.ts'
import { Figures, Kinds } from './counts.tsx'
import { HostCard } from './host.tsx'
import { useNamespaces } from './namespaces.ts'
import { OtherHosts, useOtherHosts } from './other-hosts.tsx'
import { ReaperPanel } from './reaper.tsx'
import { ResetButton, ResetProgress } from './reset.tsx'
import { Thing } from './thing.tsx'
import { heldBackOf, isElsewhere, isUnreachable, verdictOf, voucherOf } from './verdict.ts'

/** A look at the world asks the kernel about every process; it is for people, and people do not look more often. */
const lookMs = 10_000
const healthMs = 5_000

const news = ['agent:created', 'agent:terminated', 'agent:deleted', 'cleanup:report']

export function WorldView() {
  const { query } = usePlace()
  const namespace = query.get('namespace') || undefined
  const [resetId, setResetId] = useState<string>()
  const status = useLoaded(`status ${namespace ?? '*'}`, (signal) => fetchStatus(namespace, signal), { everyMs: lookMs, on: news })
  const health = useLoaded('health', fetchHealth, { everyMs: healthMs })
  const hosts = useOtherHosts(!health.data?.placements.includes('remote'))
  const namespaces = useNamespaces(namespace)
  const shown = useKept(status.data)
  // What stands there is of the namespace that was chosen before, until the answer is there.
  const isFormer = status.data === undefined
  // Where none of a namespace's is, a host that does not answer is not its business.
  const isConcerned = namespace === undefined || (shown !== undefined && isElsewhere(shown))
  const silent = isConcerned ? (hosts.data ?? []).flatMap(({ name, status: is }) => (is === 'unreachable' ? oneLine(name, 80) : [])) : []
  const look = (): void => {
    status.reload()
    hosts.reload()
  }
  return (
    <>
      <ViewHead title="World">
        <label className="world__namespace">
          <span className="field__label">Namespace</span>
          <select value={namespace ?? ''} onChange={({ target }) => replaceQuery(queryText({ namespace: target.value }))}>
            <option value="">all of them</option>
            {namespaces.map((name) => (
              <option key={name} value={name}>
                {name}
              </option>
            ))}
          </select>
        </label>
        <button type="button" className="button" onClick={look}>
          Look now
        </button>
        {health.data && shown && (
          <ResetButton health={health.data} status={shown} isReady={!isFormer} namespace={namespace} onStarted={setResetId} />
        )}
      </ViewHead>
      {status.sentence !== undefined && <Problem onRetry={status.reload}>{status.sentence}</Problem>}
      {resetId !== undefined && <ResetProgress key={resetId} id={resetId} onClose={() => setResetId(undefined)} />}
      {isFormer && status.sentence === undefined && <Progress>Looking at {namespace === undefined ? 'the world' : namespace}…</Progress>}
      {shown && (
        <div className="world__seen" aria-busy={isFormer}>
          <Statement status={shown} silent={silent} lookedAtMs={status.loadedAtMs} containment={health.data?.containment} />
          <Left status={shown} />
          <Figures status={shown} silent={silent} />
        </div>
      )}
      <div className="world__pair">
        {shown && <Kinds status={shown} />}
        <ReaperPanel />
      </div>
      <HostCard health={health.data} error={health.error} />
      <OtherHosts hosts={hosts} />
    </>
  )
}

interface StatementProps {
  readonly status: WorldStatus
  readonly silent: readonly string[]
  readonly lookedAtMs: number | undefined
  readonly containment: string | undefined
}

function Statement({ status, silent, lookedAtMs, containment }: StatementProps) {
  const { tone, title, words, badge } = verdictOf(status, silent)
  return (
    <section className={`panel verdict verdict--${tone}`} aria-label="Is the world clean">
      <div role="status">
        <p className="verdict__title">
          <Badge tone={tone}>{badge}</Badge>
          <strong>{title}</strong>
        </p>
        <p className="verdict__words">{words}</p>
      </div>
      <p className="quiet">
        {lookedAtMs !== undefined && (
          <>
            Looked <Ago at={lookedAtMs} />, in the world and not in the books alone.{' '}
          </>
        )}
        {containment !== undefined && voucherOf(containment, status, silent)}
      </p>
    </section>
  )
}

function Left({ status }: { readonly status: WorldStatus }) {
  const { leaks, stuck } = status
  const { owed, waiting } = heldBackOf(status)
  const lists = [
    { title: 'Stuck: it could not be proven gone', things: stuck },
    { title: 'Held back: something is owed before it may go', things: owed },
    { title: 'Waiting: it goes when what depends on it is gone', things: waiting, isCalm: true },
    { title: 'Leaks: there, though nobody holds it', things: leaks.filter((leak) => !isUnreachable(leak)) },
    { title: 'Unreachable: nobody can say what is there', things: leaks.filter(isUnreachable) },
  ].filter(({ things }) => things.length > 0)
  return lists.map(({ title, things, isCalm = false }) => (
    <section key={title} className={`note note--${isCalm ? 'wait' : 'alarm'}`} aria-label={title}>
      <div>
        <strong>{title}</strong>
        <ul>
          {things.map((thing) => (
            <li key={thing}>
              <Thing text={thing} />
            </li>
          ))}
        </ul>
        {!isCalm && (
          <p>
            The reaper tries each again by itself. <a href="#/cleanup">Cleanup</a> has the buttons to try now.
          </p>
        )}
      </div>
    </section>
  ))
}
