import { readAppearance } from '../../config/appearance.ts'
import type { Config } from '../../config/config.ts'
import { pause } from '../../core/engine/race.ts'
import { isEbbError, sentence } from '../../core/model/errors.ts'
import type { Report } from '../../core/model/report.ts'
import type { Clock } from '../../core/ports/clock.ts'
import type { Arguments } from '../arguments.ts'
import { reach } from '../asking.ts'
import { type Client, greet } from '../client.ts'
import { type CommandDefinition, serverOptions, type Wiring } from '../command.ts'
import { configOf } from '../open.ts'
import { type Output, plainOutput } from '../output.ts'
import { layOut } from '../terminal/columns.ts'
import { columnsOf } from '../terminal/face.ts'
import { openFullScreen } from '../top/full-screen.ts'
import { keysOf } from '../top/keys.ts'
import { type Snapshot, takeSnapshot } from '../top/snapshot.ts'
import { firstState, press, type TopState } from '../top/state.ts'
import { cellsOf, closesOf, columns, draw, extentOf, type Screen, totalsOf, worldOf } from '../top/view.ts'
import { agentFacts } from './show.ts'

export const definition: CommandDefinition = {
  name: 'top',
  summary: 'what runs, live: status, memory and processes of every agent, and whether the world is clean',
  usage: 'ebb top [--namespace NAME] [--grace 5s] [--json]',
  examples: ['ebb top', 'ebb top --namespace worker-3', 'ebb top --json'],
  options: [...serverOptions, 'namespace', 'grace'],
  switches: ['json', 'help'],
  run,
}

/** `ebb top`: what runs, live; where nobody can press keys, once. */
async function run(args: Arguments, wiring: Wiring): Promise<number> {
  const config = configOf(args, wiring)
  const { clock } = wiring
  const client = await reach(args, wiring, config)
  const output = plainOutput()
  const isJson = args.switches.has('json')
  const isLive = !isJson && process.stdout.isTTY && process.stdin.isTTY && readAppearance().canRedraw
  if (isLive) return await watch(config, client, clock, output)
  const snapshot = await takeSnapshot(client, config.namespace, clock.wall)
  if (isJson) output.out(`${JSON.stringify(snapshot, null, 2)}\n`)
  else output.painted(`${once(snapshot, output, Date.parse(clock.wall())).join('\n')}\n`)
  return 0
}

function once(snapshot: Snapshot, { face }: Output, nowMs: number): readonly string[] {
  const rows = snapshot.agents.map((agent) => cellsOf(agent, face, nowMs))
  return [
    totalsOf(snapshot).join(' · '),
    worldOf(snapshot, face),
    ...closesOf(snapshot.closes, face.width ?? 1_000, nowMs),
    ...(rows.length > 0 ? layOut(columns, rows, face.width, face.palette.faint) : []),
  ]
}

const refreshMs = 1_000

async function watch(config: Config, first: Client, clock: Clock, output: Output): Promise<number> {
  let client: Client | undefined = first
  let state: TopState = firstState
  const left = Promise.withResolvers<void>()
  let isLeft = false
  let news = Promise.withResolvers<void>()
  const size = (): Screen => {
    const { stdout } = process
    return { face: output.face, width: columnsOf(stdout), height: Math.max(3, stdout.rows || 24), nowMs: Date.parse(clock.wall()) }
  }
  const redraw = (): void => screen.draw(draw(state, size()))
  const become = (next: Partial<TopState>): void => {
    state = { ...state, ...next }
    redraw()
  }
  const stop = (id: string): void => {
    const stopped = client?.post<Report>(`/agents/${id}/stop`, { grace: config.grace }) ?? Promise.reject(new Error('There is no server.'))
    stopped.then(
      ({ success, errors }) =>
        become({ note: success ? `${id.slice(0, 8)} is stopped, proven.` : `${id.slice(0, 8)} could not be released: ${errors[0] ?? ''}` }),
      (error: unknown) => become({ note: `${id.slice(0, 8)} could not be stopped: ${sentence(error)}` }),
    )
  }
  const onKey = (key: string): void => {
    const { state: next, deed } = press(state, key, extentOf(state, size()))
    state = next
    if (deed?.is === 'quit') {
      isLeft = true
      left.resolve()
    } else if (deed?.is === 'stop') stop(deed.id)
    else if (deed?.is === 'suspend') screen.suspend()
    else if (deed?.is === 'look') news.resolve()
  }
  using screen = openFullScreen({
    redraw: () => redraw(),
    keys: (data) => {
      for (const key of keysOf(data)) onKey(key)
      redraw()
    },
  })
  const ask = async (): Promise<void> => {
    try {
      // A server that went away may come again elsewhere, with another token.
      client ??= await greet(config)
      const { selected } = state
      const [snapshot, facts] = await Promise.all([takeSnapshot(client, config.namespace, clock.wall), lookAt(client, state)])
      const { lost: _lost, facts: _facts, ...rest } = state
      // Meanwhile somebody may have gone back, or to another one.
      const isAsked = state.page === 'agent' && state.selected === selected
      state = { ...rest, snapshot, ...(facts && isAsked && { facts }) }
    } catch (error) {
      client = undefined
      state = { ...state, lost: sentence(error) }
    }
  }
  redraw()
  for (;;) {
    news = Promise.withResolvers()
    // Who leaves does not wait for a server that does not answer.
    await Promise.race([ask(), left.promise])
    if (isLeft) return 0
    redraw()
    await pause(clock, refreshMs, Promise.race([left.promise, news.promise]))
  }
}

/** One that was deleted meanwhile has no page any more. */
async function lookAt(client: Client, { page, selected }: TopState): Promise<TopState['facts']> {
  if (page !== 'agent' || selected === undefined) return undefined
  return await agentFacts(client, selected, AbortSignal.timeout(5_000)).catch((error: unknown) => {
    if (isEbbError(error, 'agent_not_found')) return 'gone'
    throw error
  })
}
