import { fetchProcesses } from '../api/calls.ts'
import { useLoaded } from '../api/loaded.ts'
import { type Agent, isFinal } from '../api/shapes.ts'
import { Age } from '../pieces/age.tsx'
import { bytes, moment, oneLine, plural } from '../pieces/format.ts'
import { Problem, Progress } from '../pieces/notes.tsx'
import { Tree } from '../pieces/tree.tsx'

export interface PartProps {
  readonly agentId: string
  readonly isLiving: boolean
  /** Nothing is to be asked. */
  readonly isOff: boolean
}

/** Its processes, as the kernel shows them now. */
export function Processes({ agent, isOff }: { readonly agent: Agent } & Pick<PartProps, 'isOff'>) {
  const { id: agentId } = agent
  const isLiving = !isFinal(agent.status)
  const { data, sentence, loadedAtMs, reload } = useLoaded(`processes ${agentId}`, (signal) => fetchProcesses(agentId, signal), {
    ...(isLiving && { everyMs: 2_000 }),
    on: ['agent:updated', 'agent:terminated'],
    fits: isOf(agentId),
    isOff,
  })
  const memory = data?.processes.reduce((sum, { rssBytes }) => sum + rssBytes, 0) ?? 0
  return (
    <section className="panel" aria-label="Processes">
      <div className="panel__head">
        <h2>Processes</h2>
        {data && data.processes.length > 0 && (
          <span className="quiet">
            {plural(data.processes.length, 'process', 'processes')} · {bytes(memory)}
          </span>
        )}
      </div>
      <div className="panel__body">
        {sentence !== undefined && <Problem onRetry={reload}>{sentence}</Problem>}
        {!data && sentence === undefined && <Progress>Looking</Progress>}
        {data?.processes.length === 0 && <p className="quiet">{noneOf(agent)}</p>}
        {data && (
          <Tree items={data.processes} keyOf={({ pid }) => String(pid)} parentOf={({ ppid }) => String(ppid)} label="Processes">
            {({ pid, command, rssBytes, startedAt }) => (
              <div className="process">
                <bdi className="process__command mono" title={oneLine(command, 1_000)}>
                  {oneLine(command, 200)}
                </bdi>
                <span className="process__facts">
                  {pid} · {bytes(rssBytes)} · <Age at={startedAt} />
                </span>
              </div>
            )}
          </Tree>
        )}
        {data && loadedAtMs !== undefined && (
          <p className="quiet panel__small">
            {data.processes.length > 0 ? `Held by ${data.containment}; looked` : 'Looked'} at {moment(loadedAtMs)}.
          </p>
        )}
      </div>
    </section>
  )
}

/** What it means that there is none. */
function noneOf({ status, type, placement }: Agent): string {
  if (status === 'stuck') return 'None lives here; what could not be released is among its resources.'
  if (status === 'stopping') return 'None lives here; the rest of it is being released.'
  const isElsewhere = type === 'synthetic' || (placement !== 'process' && placement !== 'tmux')
  return isElsewhere && !isFinal(status) ? 'It runs without a process of its own here.' : 'None lives.'
}

export function isOf(agentId: string): (event: unknown) => boolean {
  return (event) => (event as { agentId?: unknown } | undefined)?.agentId === agentId
}
