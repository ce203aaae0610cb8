import type { Agent } from '../../core/model/agent.ts'
import type { Arguments } from '../arguments.ts'
import { callServer } from '../client/server-call.ts'
import { type CommandDefinition, serverOptions, type Wiring } from '../command.ts'
import { configOf } from '../open.ts'
import { plainOutput } from '../output.ts'
import { type Column, layOut } from '../terminal/columns.ts'
import { statusPaint } from '../terminal/palette.ts'
import type { Style } from '../terminal/style.ts'
import { ageOf, shortId } from '../terminal/text.ts'

export const definition: CommandDefinition = {
  name: 'ps',
  summary: 'list the agents of the running server that have not ended',
  usage: 'ebb ps [--all] [--namespace NAME] [--json]',
  examples: ['ebb ps', 'ebb ps --all --json', 'ebb ps --namespace worker-3'],
  options: [...serverOptions, 'namespace'],
  switches: ['all', 'json', 'help'],
  run,
}

async function run(args: Arguments, wiring: Wiring): Promise<number> {
  const config = configOf(args, wiring)
  const isAll = args.switches.has('all')
  const inside = config.namespace === undefined ? '' : `?namespace=${config.namespace}`
  const agents = await callServer(args, wiring, config, (client) =>
    client.get<readonly Agent[]>(`/agents${isAll ? '' : '/active'}${inside}`),
  )
  const output = plainOutput()
  if (args.switches.has('json')) output.out(`${JSON.stringify(agents, null, 2)}\n`)
  else if (agents.length === 0)
    output.out(isAll ? 'There are no agents.\n' : 'No agents are running; "ebb ps --all" also lists those that have ended.\n')
  else output.painted(`${rows(agents, output.style, Date.parse(wiring.clock.wall())).join('\n')}\n`)
  return 0
}

const columns: readonly Column[] = [
  { name: 'ID', rank: 7 },
  { name: 'TYPE', least: 7, rank: 2 },
  { name: 'PLACEMENT', rank: 1 },
  { name: 'STATUS', rank: 6 },
  { name: 'AGE', rank: 4 },
  { name: 'MESSAGES', rank: 3 },
  { name: 'PROMPT', least: 12, rank: 5 },
]

/** In a pipe, ids are complete: a script may handle thousands of agents, where a short id is ambiguous. */
function rows(agents: readonly Agent[], { width, palette }: Style, nowMs: number): readonly string[] {
  const cells = agents.map(({ id, type, placement, status, createdAt, session }) => [
    { text: width === undefined ? id : shortId(id), paint: palette.accent },
    { text: type },
    { text: placement },
    { text: status, paint: statusPaint(palette, status) },
    { text: ageOf(Date.parse(createdAt), nowMs) },
    { text: String(session.messageCount) },
    { text: session.prompt },
  ])
  return layOut(columns, cells, width, palette.faint)
}
