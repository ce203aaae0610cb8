import type { Agent, Usage } from '../api/shapes.ts'
import { bytes, count } from '../pieces/format.ts'

interface TilesProps {
  readonly agents: readonly Agent[]
  readonly usage: ReadonlyMap<string, Usage>
}

/** Totals over all agents. */
export function Tiles({ agents, usage }: TilesProps) {
  const counts = { running: 0, stopping: 0, stuck: 0, ended: 0 }
  for (const { status } of agents) counts[groupOf(status)] += 1
  const usages = [...usage.values()]
  const memory = usages.reduce((sum, { rssBytes }) => sum + rssBytes, 0)
  const processes = usages.reduce((sum, agentUsage) => sum + agentUsage.processes, 0)
  return (
    <dl className="tiles">
      <Tile name="Running" value={count(counts.running)} tone={counts.running > 0 ? 'live' : ''} />
      <Tile name="Stopping" value={count(counts.stopping)} tone={counts.stopping > 0 ? 'wait' : ''} />
      <Tile name="Stuck" value={count(counts.stuck)} tone={counts.stuck > 0 ? 'alarm' : ''} />
      <Tile name="Ended, verified gone" value={count(counts.ended)} tone="" />
      <Tile name="Processes" value={count(processes)} tone="" />
      <Tile name="Memory" value={memory === 0 ? '–' : bytes(memory)} tone="" />
    </dl>
  )
}

function groupOf(status: Agent['status']): 'running' | 'stopping' | 'stuck' | 'ended' {
  if (status === 'stuck' || status === 'stopping') return status
  return status === 'initializing' || status === 'running' ? 'running' : 'ended'
}

function Tile({ name, value, tone }: { readonly name: string; readonly value: string; readonly tone: string }) {
  return (
    <div className={`tile ${tone === '' ? '' : `tile--${tone}`}`}>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </div>
  )
}
