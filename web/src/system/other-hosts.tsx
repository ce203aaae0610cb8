import { call } from '../api/client.ts'
import { type Loaded, useLoaded } from '../api/loaded.ts'
import { Badge, type Tone } from '../pieces/badge.tsx'
import { count, oneLine } from '../pieces/format.ts'
import { Problem } from '../pieces/notes.tsx'
import { Fact } from './host.tsx'

export interface Host {
  readonly name: string
  readonly role: 'control' | 'runner'
  readonly url?: string
  readonly status: 'well' | 'broken' | 'unreachable'
  readonly says?: string
  readonly activeAgents?: number
}

/** The poll interval. Each poll makes the server contact the other hosts. */
const hostsMs = 10_000

const badges: Readonly<Record<Host['status'], { readonly tone: Tone; readonly text: string }>> = {
  well: { tone: 'good', text: 'healthy' },
  broken: { tone: 'alarm', text: 'broken' },
  unreachable: { tone: 'alarm', text: 'unreachable' },
}

/** The other hosts that run agents of this server. */
export function useOtherHosts(isPaused: boolean): Loaded<readonly Host[]> {
  const load = async (signal: AbortSignal): Promise<readonly Host[]> =>
    (await call<readonly Host[]>('GET', '/hosts', { signal })).filter(({ role }) => role !== 'control')
  return useLoaded('hosts', load, { everyMs: hostsMs, isPaused })
}

/** Cards of the other hosts. Renders nothing if there are no other hosts. */
export function OtherHosts({ hosts }: { readonly hosts: Loaded<readonly Host[]> }) {
  return (
    <>
      {hosts.sentence !== undefined && <Problem onRetry={hosts.reload}>{hosts.sentence}</Problem>}
      {hosts.data?.map((host) => (
        <OtherHost key={`${host.role} ${host.url}`} host={host} />
      ))}
    </>
  )
}

function OtherHost({ host: { name, role, url, status, says, activeAgents } }: { readonly host: Host }) {
  return (
    <section className="panel" aria-label={`The ${role} ${oneLine(name, 80)}`}>
      <div className="panel__head">
        <h2>{oneLine(name, 80)}</h2>
        <Badge tone={badges[status].tone}>{badges[status].text}</Badge>
      </div>
      {status !== 'well' && (
        <Problem>
          {says !== undefined && <p>{oneLine(says, 400)}</p>}
          {status === 'unreachable' && <p>What runs there is unknown. Its agents are not reported as released until the host answers.</p>}
        </Problem>
      )}
      <dl className="facts">
        <Fact name="Role">{role === 'runner' ? 'runs agents of this server' : role}</Fact>
        {url !== undefined && (
          <Fact name="Address">
            <span className="mono">{oneLine(url, 200)}</span>
          </Fact>
        )}
        <Fact name="Active agents">{activeAgents === undefined ? 'unknown' : count(activeAgents)}</Fact>
      </dl>
    </section>
  )
}
