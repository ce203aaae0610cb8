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

/** The server asks the other host each time. */
const hostsMs = 10_000

const tones: Readonly<Record<Host['status'], Tone>> = { well: 'good', broken: 'alarm', unreachable: 'alarm' }

/** Where else agents of this server run. */
export function useOtherHosts(isOff: boolean): Loaded<readonly Host[]> {
  const load = async (signal: AbortSignal): Promise<readonly Host[]> =>
    (await call<readonly Host[]>('GET', '/hosts', { signal })).filter(({ role }) => role !== 'control')
  return useLoaded('hosts', load, { everyMs: hostsMs, isOff })
}

/** A card per host, and nothing where there is none. */
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
        <Badge tone={tones[status]}>{status}</Badge>
      </div>
      {status !== 'well' && (
        <Problem>
          {says !== undefined && <p>{oneLine(says, 400)}</p>}
          {status === 'unreachable' && (
            <p>Nobody can say what runs there. Its agents are unknown, not gone: they are not called released until it answers.</p>
          )}
        </Problem>
      )}
      <dl className="facts">
        <Fact name="Role">{role === 'runner' ? 'runs the agents that are placed remote' : role}</Fact>
        {url !== undefined && (
          <Fact name="Address">
            <span className="mono">{oneLine(url, 200)}</span>
          </Fact>
        )}
        <Fact name="Agents there">{activeAgents === undefined ? 'not known' : count(activeAgents)}</Fact>
      </dl>
    </section>
  )
}
