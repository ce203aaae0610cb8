import type { Config } from '../../config/config.ts'
import type { Status } from '../../core/engine/api.ts'
import { stuckArchives } from '../../core/model/agent.ts'
import { isEbbError } from '../../core/model/errors.ts'
import type { Arguments } from '../arguments.ts'
import { connectAndCheck, findServer } from '../client/client.ts'
import { type CommandDefinition, commonOptions, type Wiring } from '../command.ts'
import { configOf } from '../open.ts'
import { plainOutput } from '../output.ts'
import { type Column, layOut } from '../terminal/columns.ts'
import { wrap } from '../terminal/flow.ts'
import type { Paint, Palette } from '../terminal/palette.ts'
import { withStatusLine } from '../terminal/status-line.ts'
import type { Style } from '../terminal/style.ts'
import { flat, many } from '../terminal/text.ts'

export const definition: CommandDefinition = {
  name: 'status',
  summary: 'show whether the system is clean: what runs, what is stuck, what is held back',
  usage: 'ebb status [--json]',
  examples: ['ebb status', 'ebb status --json'],
  options: [...commonOptions, 'store', 'url', 'token'],
  switches: ['json', 'help'],
  run,
}

/** Observes this host directly. With --url it asks that server, which may run on another host. */
async function run(args: Arguments, wiring: Wiring): Promise<number> {
  const config = configOf(args, wiring)
  const isJson = args.switches.has('json')
  const observe = (): Promise<Status> => (config.url === undefined ? observeHost(config, wiring) : askServer(config))
  const status = await withStatusLine(wiring.clock, isJson, 'checking the system', observe)
  const { out, painted, style } = plainOutput()
  if (isJson) out(`${JSON.stringify(status, null, 2)}\n`)
  else painted(`${linesOf(status, style).join('\n')}\n`)
  return status.stuck.length + status.heldBack.length + status.leaks.length > 0 ? 3 : 0
}

async function askServer(config: Config): Promise<Status> {
  return await (await connectAndCheck(config)).get('/cleanup/status')
}

async function observeHost(config: Config, wiring: Wiring): Promise<Status> {
  const activeSubscriptions = await countSubscriptions(config)
  const supervisor = await wiring.compose(config, { watched: false })
  const { status } = await supervisor.engine.look({
    runningProcesses: supervisor.runningProcesses,
    rows: () => supervisor.agents.totals(undefined, new Set()),
    stuckAgents: async () => stuckArchives((await supervisor.agents.list({ statuses: ['stuck'] })).agents),
    activeSubscriptions: () => activeSubscriptions,
  })
  await supervisor.close()
  return status
}

/** Only the server of the home has subscriptions. If it does not answer, or refuses, the count is 0 and the check goes on. */
async function countSubscriptions(config: Config): Promise<number> {
  try {
    const status = await (await findServer(config))?.get<Status>('/cleanup/status')
    return status?.activeSubscriptions ?? 0
  } catch (error) {
    if (isEbbError(error)) return 0
    throw error
  }
}

const columns: readonly Column[] = [
  { name: 'KIND', least: 8, rank: 2 },
  { name: 'HELD', rank: 1, isNumber: true },
  { name: 'CLOSING', rank: 1, isNumber: true },
  { name: 'STUCK', rank: 1, isNumber: true },
]

/** The verdict on the system, which is the first sentence of the output. Counts and names follow it. */
function verdictOf(status: Status, palette: Palette): { readonly words: string; readonly paint: Paint } {
  const { stuck, heldBack, leaks, runningProcesses, resources } = status
  if (status.isClean) return { words: 'The system is clean.', paint: palette.good }
  const left = [
    ...(stuck.length > 0 ? [`${stuck.length} stuck`] : []),
    ...(heldBack.length > 0 ? [`${heldBack.length} held back`] : []),
    ...(leaks.length > 0 ? [many(leaks.length, 'leak')] : []),
  ]
  if (left.length > 0) return { words: `The system is not clean: ${left.join(', ')}.`, paint: palette.bad }
  if (runningProcesses > 0 || Object.keys(resources).length > 0)
    return { words: 'Agents are running; nothing is stuck.', paint: palette.good }
  return { words: 'Nothing is running; only records of ended agents are left.', paint: palette.good }
}

function linesOf(status: Status, { width, palette }: Style): readonly string[] {
  const { words, paint } = verdictOf(status, palette)
  const { agentCount, messageCount, runningProcesses, activeSubscriptions } = status
  const counts = [
    many(agentCount, 'agent'),
    many(messageCount, 'message'),
    many(runningProcesses, 'process', 'processes'),
    many(activeSubscriptions, 'subscription'),
  ]
  const kinds = Object.entries(status.resources).map(([kind, { held, closing, stuck }]) => [
    { text: kind },
    { text: String(held) },
    { text: String(closing), ...(closing > 0 && { paint: palette.busy }) },
    { text: String(stuck), ...(stuck > 0 && { paint: palette.bad }) },
  ])
  const named = (word: string, names: readonly string[]): readonly string[] =>
    names.flatMap((name) =>
      width === undefined
        ? [`${word.padEnd(9)}  ${flat(name)}`]
        : wrap(`${word.padEnd(9)}  ${flat(name)}`, width, ' '.repeat(11)).map((line) => palette.bad(line)),
    )
  return [
    ...wrap(words, width ?? Number.POSITIVE_INFINITY).map((line) => paint(line)),
    ...(status.isClean ? [] : wrap(`${counts.join(', ')}.`, width ?? Number.POSITIVE_INFINITY)),
    ...(kinds.length > 0 ? layOut(columns, kinds, width, palette.faint) : []),
    ...named('stuck', status.stuck),
    ...named('held back', status.heldBack),
    ...named('leak', status.leaks),
  ]
}
