import { fetchProcesses } from '../api/calls.ts'
import { useLoaded } from '../api/loaded.ts'
import { type Agent, isFinal } from '../api/shapes.ts'
import { Age } from '../pieces/age.tsx'
import { bytes, moment, oneLine, plural } from '../pieces/format.ts'
import { Problem, Progress } from '../pieces/notes.tsx'
import { Tree } from '../pieces/tree.tsx'

export interface PartProps {
  readonly agentId: string
  readonly isActive: boolean
  /** While true, this part of the page loads nothing. */
  readonly isPaused: boolean
}

/** The agent's running processes, as the server reads them from the kernel. */
export function Processes({ agent, isPaused }: { readonly agent: Agent } & Pick<PartProps, 'isPaused'>) {
  const { id: agentId } = agent
  const isActive = !isFinal(agent.status)
  const { data, sentence, loadedAtMs, reload } = useLoaded(`processes ${agentId}`, (signal) => fetchProcesses(agentId, signal), {
    ...(isActive && { everyMs: 2_000 }),
    on: ['agent:updated', 'agent:terminated'],
    fits: isOf(agentId),
    isPaused,
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
        {!data && sentence === undefined && <Progress>Loading the processes</Progress>}
        {data?.processes.length === 0 && <p className="quiet">{emptyTextOf(agent)}</p>}
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
            {data.processes.length > 0 ? `Contained by ${data.containment}. ` : ''}Checked at {moment(loadedAtMs)}.
          </p>
        )}
      </div>
    </section>
  )
}

/** The text shown when no process of the agent is on this host: the meaning depends on its status. */
function emptyTextOf({ status }: Agent): string {
  if (status === 'stuck') return 'No running processes on this host. Resources that could not be released are listed under Resources.'
  if (status === 'stopping') return 'No running processes on this host. The remaining resources are being released.'
  return isFinal(status) ? 'No running processes.' : 'This agent has no running process on this host.'
}

export function isOf(agentId: string): (event: unknown) => boolean {
  return (event) => (event as { agentId?: unknown } | undefined)?.agentId === agentId
}
