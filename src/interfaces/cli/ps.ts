import type { Agent } from '../../domain/agent.ts'
import type { Arguments } from './arguments.ts'
import type { Wiring } from './cli.ts'
import { connect } from './client.ts'
import { configOf } from './open.ts'
import { plainOutput } from './output.ts'
import { ageOf, cut, shortId, table } from './render.ts'

/** Where nobody says how wide the screen is. */
const usualColumns = 120

/** `ebb ps`: the agents that have not ended; with `--all`, all of them. */
export async function run(args: Arguments, wiring: Wiring): Promise<number> {
  const config = configOf(args, wiring)
  const client = await connect(config)
  const isAll = args.switches.has('all')
  const inside = config.namespace === undefined ? '' : `?namespace=${config.namespace}`
  const agents = await client.get<readonly Agent[]>(`/agents${isAll ? '' : '/active'}${inside}`)
  const output = plainOutput()
  if (args.switches.has('json')) output.out(`${JSON.stringify(agents, null, 2)}\n`)
  else if (agents.length === 0)
    output.out(isAll ? 'There are no agents.\n' : 'No agents run; "ebb ps --all" shows those that have ended.\n')
  else output.out(rows(agents, process.stdout.columns ?? usualColumns, Date.now()))
  return 0
}

function rows(agents: readonly Agent[], columns: number, nowMs: number): string {
  const head = ['ID', 'TYPE', 'STATUS', 'AGE', 'MESSAGES', 'PROMPT']
  const left = agents.map(({ id, type, status, createdAt, session }) => [
    shortId(id),
    cut(type, 20),
    status,
    ageOf(Date.parse(createdAt), nowMs),
    String(session.messageCount),
  ])
  const used = [head, ...left].reduce((widths, row) => widths.map((width, at) => Math.max(width, (row[at] ?? '').length)), [0, 0, 0, 0, 0])
  const room = Math.max(10, columns - used.reduce((sum, width) => sum + width + 2, 0))
  return table([head, ...left.map((row, at) => [...row, cut(agents[at]?.session.prompt ?? '', room)])])
}
