import type { Config } from '../../config/config.ts'
import type { Status } from '../../core/engine/api.ts'
import { stuckArchives } from '../../core/model/agent.ts'
import { isEbbError } from '../../core/model/errors.ts'
import type { Arguments } from '../arguments.ts'
import { findServer, greet } from '../client.ts'
import { type CommandDefinition, commonOptions, type Wiring } from '../command.ts'
import { configOf } from '../open.ts'
import { plainOutput } from '../output.ts'
import { type Column, layOut } from '../terminal/columns.ts'
import type { Face } from '../terminal/face.ts'
import { wrap } from '../terminal/flow.ts'
import type { Paint, Palette } from '../terminal/palette.ts'
import { during } from '../terminal/status-line.ts'
import { flat, many } from '../terminal/text.ts'

export const definition: CommandDefinition = {
  name: 'status',
  summary: 'is the world clean: what runs, what is stuck, what is held back',
  usage: 'ebb status [--json]',
  examples: ['ebb status', 'ebb status --json'],
  options: [...commonOptions, 'store', 'url', 'token'],
  switches: ['json', 'help'],
  run,
}

/** `ebb status`: is the world clean? Seen with our own eyes; a server that was named is asked, because its world is another. */
async function run(args: Arguments, wiring: Wiring): Promise<number> {
  const config = configOf(args, wiring)
  const isJson = args.switches.has('json')
  const look = (): Promise<Status> => (config.url === undefined ? lookAround(config, wiring) : askServer(config))
  const status = await during(wiring.clock, isJson, 'looking at the world', look)
  const { out, painted, face } = plainOutput()
  if (isJson) out(`${JSON.stringify(status, null, 2)}\n`)
  else painted(`${linesOf(status, face).join('\n')}\n`)
  return status.stuck.length + status.heldBack.length + status.leaks.length > 0 ? 3 : 0
}

async function askServer(config: Config): Promise<Status> {
  return await (await greet(config)).get('/cleanup/status')
}

async function lookAround(config: Config, wiring: Wiring): Promise<Status> {
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

/** Only the server of the home knows; a server that does not answer, or not to us, keeps nobody from looking. */
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

/** How it is, in a sentence; the counts and names behind it follow. */
function verdictOf(status: Status, palette: Palette): { readonly words: string; readonly paint: Paint } {
  const { stuck, heldBack, leaks, runningProcesses, resources } = status
  if (status.isClean) return { words: 'The world is clean.', paint: palette.good }
  const left = [
    ...(stuck.length > 0 ? [`${stuck.length} stuck`] : []),
    ...(heldBack.length > 0 ? [`${heldBack.length} held back`] : []),
    ...(leaks.length > 0 ? [many(leaks.length, 'leak')] : []),
  ]
  if (left.length > 0) return { words: `Something is left: ${left.join(', ')}.`, paint: palette.bad }
  if (runningProcesses > 0 || Object.keys(resources).length > 0)
    return { words: 'Agents are at work; nothing is stuck.', paint: palette.good }
  return { words: 'Nothing of an agent is left but what is on record.', paint: palette.good }
}

function linesOf(status: Status, { width, palette }: Face): readonly string[] {
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
  const named = (word: string, ones: readonly string[]): readonly string[] =>
    ones.flatMap((one) =>
      width === undefined
        ? [`${word.padEnd(9)}  ${flat(one)}`]
        : wrap(`${word.padEnd(9)}  ${flat(one)}`, width, ' '.repeat(11)).map((line) => palette.bad(line)),
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
