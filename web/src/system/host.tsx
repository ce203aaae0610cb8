import type { ReactNode } from 'react'
import { ApiError, sentenceOf } from '../api/client.ts'
import type { Health } from '../api/closes.ts'
import { useLabels } from '../api/labels.tsx'
import { Lasting } from '../pieces/age.tsx'
import { Badge } from '../pieces/badge.tsx'
import { bytes, moment, oneLine } from '../pieces/format.ts'
import { Problem } from '../pieces/notes.tsx'

/** The server's host: its health, its containment and its settings. */
export function HostCard({ health, error }: { readonly health: Health | undefined; readonly error: unknown }) {
  const { placementTitle } = useLabels()
  const problems = error instanceof ApiError && Array.isArray(error.details) ? error.details.map(String) : (health?.problems ?? [])
  return (
    <section className="panel" aria-label="This host">
      <div className="panel__head">
        <h2>{health ? oneLine(health.host.name, 80) : 'This host'}</h2>
        {health && <Condition isBroken={problems.length > 0 || health.status === 'broken'} isUnreachable={error !== undefined} />}
      </div>
      {problems.length > 0 && (
        <Problem>
          <ul>
            {problems.map((problem) => (
              <li key={problem}>{oneLine(problem, 400)}</li>
            ))}
          </ul>
        </Problem>
      )}
      {error !== undefined && problems.length === 0 && <Problem>{sentenceOf(error)}</Problem>}
      {health && (
        <dl className="facts">
          <Fact name="Containment">{health.containment}</Fact>
          <Fact name="Placements">{health.placements.map(placementTitle).join(', ')}</Fact>
          <Fact name="Uptime">
            <Lasting from={health.startedAt} until={error === undefined ? undefined : lastAnswerAt(health)} />, since{' '}
            {moment(health.startedAt)}
          </Fact>
          <Fact name="Server memory">{bytes(health.memoryUsage.rss)}</Fact>
          <Fact name="Database">{health.databaseStatus}</Fact>
          <Fact name="Runner for other servers">{health.runner ? 'yes' : 'no'}</Fact>
          <Fact name="Test endpoints">{health.testEndpoints ? 'yes' : 'no'}</Fact>
          <Fact name="Ebb">
            {health.version} on {health.host.platform}, Node {health.nodeVersion.replace(/^v/, '')}, pid {health.pid}
          </Fact>
          <Fact name="Instance">
            <span className="mono">{oneLine(health.instanceId, 80)}</span>
          </Fact>
        </dl>
      )}
    </section>
  )
}

function Condition({ isBroken, isUnreachable }: { readonly isBroken: boolean; readonly isUnreachable: boolean }) {
  if (isBroken) return <Badge tone="alarm">broken</Badge>
  return isUnreachable ? <Badge tone="alarm">unknown</Badge> : <Badge tone="good">healthy</Badge>
}

/** The time of the server's last answer. While it does not answer, its uptime must not grow. */
function lastAnswerAt({ startedAt, uptime }: Health): string {
  return new Date(Date.parse(startedAt) + uptime * 1_000).toISOString()
}

export function Fact({ name, children }: { readonly name: string; readonly children: ReactNode }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  )
}
