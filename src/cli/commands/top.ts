import { readAppearance } from '../../config/appearance.ts'
import type { Config } from '../../config/config.ts'
import { pause } from '../../core/engine/race.ts'
import { isEbbError, sentence } from '../../core/model/errors.ts'
import type { Report } from '../../core/model/report.ts'
import type { Clock } from '../../core/ports/clock.ts'
import type { Arguments } from '../arguments.ts'
import { type Client, connectAndCheck } from '../client/client.ts'
import { connectToServer } from '../client/server-call.ts'
import { type CommandDefinition, serverOptions, type Wiring } from '../command.ts'
import { configOf } from '../open.ts'
import { type Output, plainOutput } from '../output.ts'
import { layOut } from '../terminal/columns.ts'
import { columnsOf } from '../terminal/style.ts'
import { openFullScreen } from '../top/full-screen.ts'
import { keysOf } from '../top/keys.ts'
import { type Snapshot, takeSnapshot } from '../top/snapshot.ts'
import { firstState, press, type TopState } from '../top/state.ts'
import { cellsOf, closesOf, columns, draw, extentOf, type Screen, systemOf, totalsOf } from '../top/view.ts'
import { agentFacts } from './show.ts'

export const definition: CommandDefinition = {
  name: 'top',
  summary: 'show live what runs: status, memory and processes of every agent, and whether the system is clean',
  usage: 'ebb top [--namespace NAME] [--grace 5s] [--json]',
  examples: ['ebb top', 'ebb top --namespace worker-3', 'ebb top --json'],
  options: [...serverOptions, 'namespace', 'grace'],
  switches: ['json', 'help'],
  run,
}

/** Shows a live view on a terminal, and otherwise one snapshot. */
async function run(args: Arguments, wiring: Wiring): Promise<number> {
  const config = configOf(args, wiring)
  const { clock } = wiring
  const client = await connectToServer(args, wiring, config)
  const output = plainOutput()
  const isJson = args.switches.has('json')
  const isLive = !isJson && process.stdout.isTTY && process.stdin.isTTY && readAppearance().canRedraw
  if (isLive) return await watch(config, client, clock, output)
  const snapshot = await takeSnapshot(client, config.namespace, clock.wall)
  if (isJson) output.out(`${JSON.stringify(snapshot, null, 2)}\n`)
  else output.painted(`${snapshotLines(snapshot, output, Date.parse(clock.wall())).join('\n')}\n`)
  return 0
}

function snapshotLines(snapshot: Snapshot, { style }: Output, nowMs: number): readonly string[] {
  const rows = snapshot.agents.map((agent) => cellsOf(agent, style, nowMs))
  return [
    totalsOf(snapshot).join(' · '),
    systemOf(snapshot, style),
    ...closesOf(snapshot.closes, style.width ?? 1_000, nowMs),
    ...(rows.length > 0 ? layOut(columns, rows, style.width, style.palette.faint) : []),
  ]
}

const refreshMs = 1_000

async function watch(config: Config, first: Client, clock: Clock, output: Output): Promise<number> {
  let client: Client | undefined = first
  let state: TopState = firstState
  const left = Promise.withResolvers<void>()
  let isLeft = false
  let wake = Promise.withResolvers<void>()
  const size = (): Screen => {
    const { stdout } = process
    return { style: output.style, width: columnsOf(stdout), height: Math.max(3, stdout.rows || 24), nowMs: Date.parse(clock.wall()) }
  }
  const redraw = (): void => screen.draw(draw(state, size()))
  const update = (next: Partial<TopState>): void => {
    state = { ...state, ...next }
    redraw()
  }
  const stop = (id: string): void => {
    const stopped =
      client?.post<Report>(`/agents/${id}/stop`, { grace: config.grace }) ?? Promise.reject(new Error('The server does not answer.'))
    stopped.then(
      ({ success, errors }) =>
        update({
          note: success ? `${id.slice(0, 8)} is stopped and proven gone.` : `${id.slice(0, 8)} could not be released: ${errors[0] ?? ''}`,
        }),
      (error: unknown) => update({ note: `${id.slice(0, 8)} could not be stopped: ${sentence(error)}` }),
    )
  }
  const onKey = (key: string): void => {
    const { state: next, action } = press(state, key, extentOf(state, size()))
    state = next
    if (action?.is === 'quit') {
      isLeft = true
      left.resolve()
    } else if (action?.is === 'stop') stop(action.id)
    else if (action?.is === 'suspend') screen.suspend()
    else if (action?.is === 'load') wake.resolve()
  }
  using screen = openFullScreen({
    redraw: () => redraw(),
    keys: (data) => {
      for (const key of keysOf(data)) onKey(key)
      redraw()
    },
  })
  const refresh = async (): Promise<void> => {
    try {
      // After a loss of the server the client connects again, because the next server may have another address and another token.
      client ??= await connectAndCheck(config)
      const { selected } = state
      const [snapshot, facts] = await Promise.all([takeSnapshot(client, config.namespace, clock.wall), loadFacts(client, state)])
      const { lost: _lost, facts: _facts, ...rest } = state
      // While the data was loading, the user may have left the page, or opened another one.
      const isCurrent = state.page === 'agent' && state.selected === selected
      state = { ...rest, snapshot, ...(facts && isCurrent && { facts }) }
    } catch (error) {
      client = undefined
      state = { ...state, lost: sentence(error) }
    }
  }
  redraw()
  for (;;) {
    wake = Promise.withResolvers()
    // Quitting does not wait for a server that does not answer.
    await Promise.race([refresh(), left.promise])
    if (isLeft) return 0
    redraw()
    await pause(clock, refreshMs, Promise.race([left.promise, wake.promise]))
  }
}

/** Loads the page of the selected agent. The agent may have been deleted in the meantime. */
async function loadFacts(client: Client, { page, selected }: TopState): Promise<TopState['facts']> {
  if (page !== 'agent' || selected === undefined) return undefined
  return await agentFacts(client, selected, AbortSignal.timeout(5_000)).catch((error: unknown) => {
    if (isEbbError(error, 'agent_not_found')) return 'gone'
    throw error
  })
}
