import { useState } from 'react'
import { fetchHealth, fetchStatus, type SystemStatus } from '../api/closes.ts'
import { useLabels } from '../api/labels.tsx'
import { useLive } from '../api/live.ts'
import { useLoaded } from '../api/loaded.ts'
import type { Agent } from '../api/shapes.ts'
import { useLastData } from '../cleanup/last-data.ts'
import { fetchNewest, remember } from '../cleanup/scope-names.ts'
import { Ago } from '../pieces/ago.tsx'
import { Badge } from '../pieces/badge.tsx'
import { oneLine } from '../pieces/format.ts'
import { Problem, Progress } from '../pieces/notes.tsx'
import { ViewHead } from '../pieces/view-head.tsx'
import { queryText } from '../query.ts'
import { replaceQuery, usePlace } from '../routing.ts'
import { Figures, Kinds } from './counts.tsx'
import { HostCard } from './host.tsx'
import { OtherHosts, useOtherHosts } from './other-hosts.tsx'
import { ReaperPanel } from './reaper.tsx'
import { ResetButton, ResetProgress } from './reset.tsx'
import { hasRemoteResources, heldBackOf, isFailedListing, proofSourceOf, verdictOf } from './verdict.ts'

/** The poll interval of the status. Each request makes the server check every process, so it is not polled more often. */
const statusMs = 10_000
const healthMs = 5_000

const reloadEvents = ['agent:created', 'agent:terminated', 'agent:deleted', 'cleanup:report']

export function SystemView() {
  const labels = useLabels()
  const { query } = usePlace()
  const namespace = query.get('namespace') || undefined
  const [resetId, setResetId] = useState<string>()
  const status = useLoaded(`status ${namespace ?? '*'}`, (signal) => fetchStatus(namespace, signal), {
    everyMs: statusMs,
    on: reloadEvents,
  })
  const health = useLoaded('health', fetchHealth, { everyMs: healthMs })
  const hosts = useOtherHosts(!labels.placements.some(({ isAvailable, hasHost }) => isAvailable && hasHost))
  const namespaces = useNamespaces(namespace)
  const shown = useLastData(status.data)
  // Until the answer for a newly chosen namespace arrives, the data of the previous one is shown.
  const isOutdated = status.data === undefined
  // An unreachable host does not matter to a namespace without remote resources.
  const mayBeRemote = namespace === undefined || (shown !== undefined && hasRemoteResources(shown, labels))
  const unreachableHosts = mayBeRemote
    ? (hosts.data ?? []).flatMap(({ name, status: is }) => (is === 'unreachable' ? oneLine(name, 80) : []))
    : []
  const checkNow = (): void => {
    status.reload()
    hosts.reload()
  }
  return (
    <>
      <ViewHead title="System">
        <label className="system__namespace">
          <span className="field__label">Namespace</span>
          <select value={namespace ?? ''} onChange={({ target }) => replaceQuery(queryText({ namespace: target.value }))}>
            <option value="">all namespaces</option>
            {namespaces.map((name) => (
              <option key={name} value={name}>
                {name}
              </option>
            ))}
          </select>
        </label>
        <button type="button" className="button" onClick={checkNow}>
          Check now
        </button>
        {health.data && shown && (
          <ResetButton health={health.data} status={shown} isReady={!isOutdated} namespace={namespace} onStarted={setResetId} />
        )}
      </ViewHead>
      {status.sentence !== undefined && <Problem onRetry={status.reload}>{status.sentence}</Problem>}
      {resetId !== undefined && <ResetProgress key={resetId} id={resetId} onClose={() => setResetId(undefined)} />}
      {isOutdated && status.sentence === undefined && (
        <Progress>Checking {namespace === undefined ? 'the system' : `the namespace ${namespace}`}…</Progress>
      )}
      {shown && (
        <div className="system__status" aria-busy={isOutdated}>
          <Statement
            status={shown}
            unreachableHosts={unreachableHosts}
            checkedAtMs={status.loadedAtMs}
            containment={health.data?.containment}
          />
          <LeftResources status={shown} />
          <Figures status={shown} unreachableHosts={unreachableHosts} />
        </div>
      )}
      <div className="system__pair">
        {shown && <Kinds status={shown} />}
        <ReaperPanel />
      </div>
      <HostCard health={health.data} error={health.error} />
      <OtherHosts hosts={hosts} />
    </>
  )
}

interface StatementProps {
  readonly status: SystemStatus
  readonly unreachableHosts: readonly string[]
  readonly checkedAtMs: number | undefined
  readonly containment: string | undefined
}

function Statement({ status, unreachableHosts, checkedAtMs, containment }: StatementProps) {
  const labels = useLabels()
  const { tone, title, text, badge } = verdictOf(status, unreachableHosts)
  return (
    <section className={`panel verdict verdict--${tone}`} aria-label="System status">
      <div role="status">
        <p className="verdict__title">
          <Badge tone={tone}>{badge}</Badge>
          <strong>{title}</strong>
        </p>
        <p className="verdict__text">{text}</p>
      </div>
      <p className="quiet">
        {checkedAtMs !== undefined && (
          <>
            Checked <Ago at={checkedAtMs} />, by observing the system and not only the ledger.{' '}
          </>
        )}
        {containment !== undefined && proofSourceOf(containment, status, unreachableHosts, labels)}
      </p>
    </section>
  )
}

function LeftResources({ status }: { readonly status: SystemStatus }) {
  const { leaks, stuck } = status
  const { blocked, waiting } = heldBackOf(status)
  const lists = [
    { title: 'Stuck: could not be verified as gone', resources: stuck },
    { title: 'Held back: an obligation must be met first', resources: blocked },
    { title: 'Waiting: released after the resources that depend on it', resources: waiting, isHarmless: true },
    { title: 'Leaks: present, but held by no scope', resources: leaks.filter((leak) => !isFailedListing(leak)) },
    { title: 'Unreachable: could not be listed', resources: leaks.filter(isFailedListing) },
  ].filter(({ resources }) => resources.length > 0)
  return lists.map(({ title, resources, isHarmless = false }) => (
    <section key={title} className={`note note--${isHarmless ? 'wait' : 'alarm'}`} aria-label={title}>
      <div>
        <strong>{title}</strong>
        <ul>
          {resources.map((resource) => (
            <li key={resource}>
              <ResourceText text={resource} />
            </li>
          ))}
        </ul>
        {!isHarmless && (
          <p>
            The reaper retries these automatically. The <a href="#/cleanup">Cleanup</a> view has buttons to retry now.
          </p>
        )}
      </div>
    </section>
  ))
}

/** An entry of the status, such as `kind name: reason`. The name may be any text, so it is cleaned and shortened. */
function ResourceText({ text }: { readonly text: string }) {
  const at = text.indexOf(': ')
  const [name, reason] = at === -1 ? [text, undefined] : [text.slice(0, at), text.slice(at + 2)]
  return (
    <>
      <span className="mono">{oneLine(name, 200)}</span>
      {reason === undefined ? '' : `: ${oneLine(reason, 300)}`}
    </>
  )
}

/** The chosen namespace, the namespaces of the newest agents (loaded once), and those of agents launched since. */
function useNamespaces(chosen: string | undefined): readonly string[] {
  const [created, setCreated] = useState<ReadonlySet<string>>(new Set())
  const { data = [] } = useLoaded('namespaces', async (signal) => (await fetchNewest(signal)).map(({ namespace }) => namespace))
  useLive<{ readonly agent: Agent }>('agent:created', ({ agent }) => {
    remember([agent])
    setCreated((known) => (known.has(agent.namespace) ? known : new Set([...known, agent.namespace])))
  })
  return [...new Set([...data, ...created, ...(chosen === undefined ? [] : [chosen])])].toSorted()
}
