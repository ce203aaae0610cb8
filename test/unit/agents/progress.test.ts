import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import type { EventMap } from '../../../src/agents/events.ts'
import type { HistoryDetail } from '../../../src/agents/history.ts'
import { type ControlOptions, launchIn, type SimulatedControl, simulateControl } from '../../support/simulated-control.ts'
import { Simulation, thing } from '../../support/simulation.ts'

let simulation: Simulation

beforeEach(async () => {
  simulation = await Simulation.open(50)
})

afterEach(async () => {
  await simulation[Symbol.asyncDispose]()
  expect(simulation.world.violations).toEqual([])
})

const run = <T>(work: Promise<T>): Promise<T> => simulation.clock.run(work)
const pause = (ms: number): Promise<void> => run(simulation.clock.pause(ms))

type EmittedEvent = { readonly [K in 'closing' | 'progress' | 'report']: { readonly name: K } & EventMap[K] }[
  | 'closing'
  | 'progress'
  | 'report']

async function begin(options: ControlOptions = {}): Promise<SimulatedControl & { readonly emitted: EmittedEvent[] }> {
  const simulated = simulateControl(simulation, options)
  await run(simulated.life.engine.begin())
  const emitted: EmittedEvent[] = []
  for (const name of ['closing', 'progress', 'report'] as const)
    simulated.control.events.on(name, (event) => emitted.push({ name, ...event } as EmittedEvent))
  return { ...simulated, emitted }
}

/** A plan in which `log` waits for `tree`, and `tree` ends only when it is killed. */
const stubborn = () => [thing('log', { owes: ['archive'] }), thing('tree', { hears: 'kill', dependsOn: ['log'] })]

async function runningCloses({ control }: SimulatedControl): Promise<HistoryDetail> {
  const [running] = await run(control.history.list(10))
  if (running?.state !== 'running') throw new Error('No close is running.')
  const found = await run(control.history.find(running.id))
  if (!found) throw new Error('The running close cannot be found.')
  return found
}

function states({ progress = [] }: HistoryDetail): readonly string[] {
  return progress.map(({ state }) => state)
}

describe('progress of a running close', () => {
  test('shows each resource with its current state and its dependencies', async () => {
    const simulated = await begin({ plan: stubborn })
    const id = await launchIn(simulation, simulated, 'one')
    const startedMs = simulation.clock.now()
    const stopped = simulated.control.agents.stop(id, { graceMs: 4_000 })
    // The rejection is ignored here, and handled where the promise is awaited below.
    stopped.catch(() => {})
    await pause(1_000)
    const entry = await runningCloses(simulated)
    expect(entry).toMatchObject({
      state: 'running',
      trigger: 'terminated',
      scope: { kind: 'agent', id },
      duration: 1_000,
      released: 0,
      stuck: 0,
    })
    expect(entry).not.toHaveProperty('report')
    const at = new Date(startedMs).toISOString()
    const scope = { kind: 'agent', id }
    expect(entry.progress).toEqual([
      { id: `${id}.1`, kind: 'listed', name: `${id}.1`, scope, dependsOn: [], state: 'waiting', since: at, steps: [] },
      {
        id: `${id}.2`,
        kind: 'listed',
        name: `${id}.2`,
        scope,
        dependsOn: [`${id}.1`],
        state: 'polite',
        since: at,
        startedAt: at,
        steps: [],
      },
    ])
    await pause(2_000)
    expect(await runningCloses(simulated)).toMatchObject({
      progress: [{ state: 'waiting' }, { state: 'terminate', steps: [{ step: 'polite', took: 2_000 }] }],
    })
    const report = await run(stopped)
    expect(report.resources.toReversed()).toMatchObject([
      { id: `${id}.1`, outcome: 'released', startedAt: new Date(startedMs + 4_000).toISOString(), obligations: { took: 0 } },
      {
        id: `${id}.2`,
        outcome: 'released',
        startedAt: at,
        endedAt: new Date(startedMs + 4_000).toISOString(),
        dependsOn: [`${id}.1`],
        scope,
      },
    ])
    expect(await run(simulated.control.history.find(entry.id))).toMatchObject({
      state: 'done',
      escalation: 'kill',
      report: { success: true },
    })
    expect(await run(simulated.control.history.find(entry.id))).not.toHaveProperty('progress')
  })

  test('is emitted from the start to the report under one id, and not after the report', async () => {
    const simulated = await begin({ plan: stubborn })
    const { control, emitted } = simulated
    const id = await launchIn(simulation, simulated, 'one')
    await run(control.agents.stop(id, { graceMs: 2_000 }))
    await pause(10_000)
    expect(emitted.map(({ name }) => name)).toEqual(['closing', 'progress', 'progress', 'report'])
    expect(new Set(emitted.map((event) => event.id)).size).toBe(1)
    expect(new Set(emitted.map(({ namespace }) => namespace))).toEqual(new Set(['one']))
    expect(emitted[0]).toMatchObject({ trigger: 'terminated', scope: { kind: 'agent', id } })
    expect(emitted.flatMap((event) => (event.name === 'progress' ? event.resource.state : []))).toEqual(['polite', 'terminate'])
  })

  test('is emitted once when a second caller joins the close', async () => {
    const simulated = await begin({ plan: stubborn })
    const { control, emitted } = simulated
    const id = await launchIn(simulation, simulated, 'one')
    const first = control.agents.stop(id, { graceMs: 60_000 })
    await pause(1_000)
    const second = control.agents.stop(id, { force: true })
    await run(Promise.all([first, second]))
    expect(emitted.filter(({ name }) => name === 'closing')).toHaveLength(1)
    expect(emitted.filter(({ name }) => name === 'report')).toHaveLength(1)
  })

  test('counts released and stuck resources while the close runs', async () => {
    const simulated = await begin({ plan: () => [thing('a'), thing('b', { hears: 'kill' }), thing('c', { hears: 'kill', times: 1e6 })] })
    const id = await launchIn(simulation, simulated, 'one')
    const stopped = simulated.control.agents.stop(id, { graceMs: 2_000 })
    await pause(1_500)
    expect(await runningCloses(simulated)).toMatchObject({ released: 1, stuck: 0 })
    await pause(1_000)
    expect(await runningCloses(simulated)).toMatchObject({ released: 2, stuck: 0 })
    await run(stopped)
    expect(await run(simulated.control.history.list(1))).toMatchObject([{ state: 'done', released: 2, stuck: 1 }])
    simulation.world.things.delete(`${id}.3`)
    await run(simulated.control.agents.stop(id, { force: true }))
  })

  test('a held-back resource is reported with the reason', async () => {
    const simulated = await begin({ plan: () => [thing('log'), thing('tree', { hears: 'kill', times: 1e6, dependsOn: ['log'] })] })
    const id = await launchIn(simulation, simulated, 'one')
    const report = await run(simulated.control.agents.stop(id, { graceMs: 0 }))
    const log = report.resources.find((one) => one.id === `${id}.1`)
    expect(log).toMatchObject({ outcome: 'held-back', error: 'A resource that depends on it still exists.', endedAt: expect.any(String) })
    expect(log).not.toHaveProperty('startedAt')
    simulation.world.things.delete(`${id}.2`)
    await run(simulated.control.agents.stop(id, { force: true }))
  })

  test('200 resources are emitted in frames of at most 64, each with its current state, and none after the report', async () => {
    const plan = () => Array.from({ length: 200 }, (_, index) => thing(`t${index}`, { hears: index < 150 ? 'polite' : 'kill' }))
    const simulated = await begin({ plan })
    const { control, emitted } = simulated
    const id = await launchIn(simulation, simulated, 'one')
    const frames = new Map<number, number>()
    control.events.on('progress', () => frames.set(simulation.clock.now(), (frames.get(simulation.clock.now()) ?? 0) + 1))
    const report = await run(control.agents.stop(id, { graceMs: 2_000 }))
    await pause(1_000)
    expect(report.resources).toHaveLength(200)
    expect([...frames.values()].every((count) => count <= 64)).toBe(true)
    // Each of the 200 resources is emitted once at the beginning. The 50 that need a kill are emitted again at `terminate`.
    expect(emitted.filter(({ name }) => name === 'progress')).toHaveLength(250)
    expect(emitted.at(-1)?.name).toBe('report')
  })

  test('a listener that throws does not delay the close', async () => {
    const simulated = await begin({ plan: stubborn })
    const { control } = simulated
    control.events.on('closing', () => {
      throw new Error('A listener failed.')
    })
    control.events.on('progress', () => {
      throw new Error('A listener failed.')
    })
    const id = await launchIn(simulation, simulated, 'one')
    expect(await run(control.agents.stop(id, { graceMs: 1_000 }))).toMatchObject({ success: true, duration: 1_000 })
  })
})

describe('progress of a combined close', () => {
  test('has one history entry and one event id, with the resources of all its closes', async () => {
    const simulated = await begin({ plan: stubborn })
    const { control, emitted } = simulated
    const one = await launchIn(simulation, simulated, 'one')
    const two = await launchIn(simulation, simulated, 'two')
    const { id, report } = control.cleanup.reset({ timeoutMs: 4_000 })
    await pause(1_000)
    const list = await run(control.history.list(10))
    expect(list).toMatchObject([{ id, state: 'running', trigger: 'test-reset', scope: { kind: 'host' } }])
    const entry = await runningCloses(simulated)
    expect(new Set(entry.progress?.map(({ scope }) => scope.id))).toEqual(new Set([one, two]))
    expect(states(entry).toSorted()).toEqual(['polite', 'polite', 'waiting', 'waiting'])
    await run(report)
    expect(new Set(emitted.map((event) => event.id))).toEqual(new Set([id]))
    expect(emitted.at(-1)?.name).toBe('report')
    // Progress of a close of all namespaces goes to the namespace of each resource.
    const namespaces = emitted.flatMap((event) => (event.name === 'progress' ? [[event.resource.scope.id, event.namespace]] : []))
    expect(namespaces).toEqual(
      expect.arrayContaining([
        [one, 'one'],
        [two, 'two'],
      ]),
    )
  })

  test('includes a close that was running before, which keeps its own id and report', async () => {
    const simulated = await begin({ plan: stubborn })
    const { control, emitted } = simulated
    const id = await launchIn(simulation, simulated, 'one')
    const stopped = control.agents.stop(id, { graceMs: 60_000 })
    await pause(1_000)
    const reset = control.cleanup.reset({ namespace: 'one', timeoutMs: 2_000 })
    await pause(500)
    const running = await run(control.history.list(10))
    expect(running).toMatchObject([
      { id: reset.id, trigger: 'test-reset' },
      { trigger: 'terminated', scope: { kind: 'agent', id } },
    ])
    expect(await run(control.history.find(reset.id))).toMatchObject({ progress: [{ state: 'waiting' }, { state: 'terminate' }] })
    await run(Promise.all([stopped, reset.report]))
    const reports = emitted.filter(({ name }) => name === 'report')
    expect(reports.map((event) => event.id)).toEqual([running[1]?.id, reset.id])
  })

  test('emits no progress after its report, although one of its closes continues', async () => {
    const simulated = await begin({ plan: () => [thing('a', { hears: 'kill', times: 1e6 })] })
    const { control, emitted, life } = simulated
    const id = await launchIn(simulation, simulated, 'one')
    const reset = control.cleanup.reset({ namespace: 'one', timeoutMs: 500 })
    await run(reset.report)
    const atReport = emitted.length
    simulation.world.things.delete(`${id}.1`)
    await pause(60_000)
    expect(emitted.slice(atReport).filter((event) => event.id === reset.id)).toEqual([])
    await run(life.engine.close(id, { trigger: 'terminated', force: true, forget: true }))
  })
})

test('history: reads each stored report from the database once', async () => {
  const simulated = await begin({ plan: () => [thing('a')] })
  const { control } = simulated
  const all = vi.spyOn(simulation.store, 'reports')
  const one = vi.spyOn(simulation.store, 'findReport')
  const stop = async (): Promise<unknown> => run(control.agents.stop(await launchIn(simulation, simulated, 'one'), {}))
  for (let n = 0; n < 12; n++) await stop()
  const first = await run(control.history.list(100))
  expect(first).toHaveLength(12)
  expect(all).toHaveBeenCalledTimes(1)
  await stop()
  const [newest, ...others] = await run(control.history.list(100))
  expect(newest).toMatchObject({ state: 'done', success: true })
  expect(others).toEqual(first)
  expect(await run(control.history.list(5))).toEqual([newest, ...first.slice(0, 4)])
  expect(all).toHaveBeenCalledTimes(1)
  expect(one).toHaveBeenCalledTimes(1)
})

describe('usage of the running agents', () => {
  test('concurrent callers share one process listing, and get the processes of each agent', async () => {
    const simulated = await begin({ plan: () => [thing('a')] })
    const { control, life, processes } = simulated
    const one = await launchIn(simulation, simulated, 'one')
    const two = await launchIn(simulation, simulated, 'two')
    const incarnation = life.id
    processes.push({ pid: 2, resourceId: `${one}.1`, incarnation }, { pid: 3, resourceId: `${one}.9`, incarnation })
    processes.push({ pid: 5, resourceId: `${two}.1`, incarnation }, { pid: 7, resourceId: 'gone.1', incarnation })
    const all = await Promise.all([control.usage(undefined), control.usage('two'), control.usage('three')])
    expect(all).toEqual([
      [
        { agentId: one, processes: 2, rssBytes: 5_000 },
        { agentId: two, processes: 1, rssBytes: 5_000 },
      ],
      [{ agentId: two, processes: 1, rssBytes: 5_000 }],
      [],
    ])
    expect(simulated.looks.count).toBe(1)
    await control.usage(undefined)
    expect(simulated.looks.count).toBe(2)
    processes.length = 0
    await run(control.cleanup.reset({ force: true }).report)
  })
})
