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

type Told = { readonly [K in 'closing' | 'progress' | 'report']: { readonly name: K } & EventMap[K] }['closing' | 'progress' | 'report']

async function begin(options: ControlOptions = {}): Promise<SimulatedControl & { readonly told: Told[] }> {
  const simulated = simulateControl(simulation, options)
  await run(simulated.life.engine.begin())
  const told: Told[] = []
  for (const name of ['closing', 'progress', 'report'] as const)
    simulated.control.events.on(name, (event) => told.push({ name, ...event } as Told))
  return { ...simulated, told }
}

/** `log` waits for `tree`, which hears nothing but a kill. */
const stubborn = () => [thing('log', { owes: ['archive'] }), thing('tree', { hears: 'kill', dependsOn: ['log'] })]

async function runningCloses({ control }: SimulatedControl): Promise<HistoryDetail> {
  const [running] = await run(control.history.list(10))
  if (running?.state !== 'running') throw new Error('Nothing is under way.')
  const found = await run(control.history.find(running.id))
  if (!found) throw new Error('What is under way cannot be found.')
  return found
}

function states({ progress = [] }: HistoryDetail): readonly string[] {
  return progress.map(({ state }) => state)
}

describe('a close under way', () => {
  test('shows each resource with what it does now, and what it waits for', async () => {
    const simulated = await begin({ plan: stubborn })
    const id = await launchIn(simulation, simulated, 'one')
    const startedMs = simulation.clock.now()
    const stopped = simulated.control.agents.stop(id, { graceMs: 4_000 })
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

  test('is told from its start to its report, under one id, and nothing after that', async () => {
    const simulated = await begin({ plan: stubborn })
    const { control, told } = simulated
    const id = await launchIn(simulation, simulated, 'one')
    await run(control.agents.stop(id, { graceMs: 2_000 }))
    await pause(10_000)
    expect(told.map(({ name }) => name)).toEqual(['closing', 'progress', 'progress', 'report'])
    expect(new Set(told.map((event) => event.id)).size).toBe(1)
    expect(new Set(told.map(({ namespace }) => namespace))).toEqual(new Set(['one']))
    expect(told[0]).toMatchObject({ trigger: 'terminated', scope: { kind: 'agent', id } })
    expect(told.flatMap((event) => (event.name === 'progress' ? event.resource.state : []))).toEqual(['polite', 'terminate'])
  })

  test('that is joined is one: both callers watch the same', async () => {
    const simulated = await begin({ plan: stubborn })
    const { control, told } = simulated
    const id = await launchIn(simulation, simulated, 'one')
    const first = control.agents.stop(id, { graceMs: 60_000 })
    await pause(1_000)
    const second = control.agents.stop(id, { force: true })
    await run(Promise.all([first, second]))
    expect(told.filter(({ name }) => name === 'closing')).toHaveLength(1)
    expect(told.filter(({ name }) => name === 'report')).toHaveLength(1)
  })

  test('counts what is gone and what stays while it runs', async () => {
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

  test('of something held back says so, and says why', async () => {
    const simulated = await begin({ plan: () => [thing('log'), thing('tree', { hears: 'kill', times: 1e6, dependsOn: ['log'] })] })
    const id = await launchIn(simulation, simulated, 'one')
    const report = await run(simulated.control.agents.stop(id, { graceMs: 0 }))
    const log = report.resources.find((one) => one.id === `${id}.1`)
    expect(log).toMatchObject({ outcome: 'held-back', error: 'A resource that depends on it still exists.', endedAt: expect.any(String) })
    expect(log).not.toHaveProperty('startedAt')
    simulation.world.things.delete(`${id}.2`)
    await run(simulated.control.agents.stop(id, { force: true }))
  })

  test('of 200 resources is told in frames of 64, each resource as it is then, and not at all after the report', async () => {
    const plan = () => Array.from({ length: 200 }, (_, index) => thing(`t${index}`, { hears: index < 150 ? 'polite' : 'kill' }))
    const simulated = await begin({ plan })
    const { control, told } = simulated
    const id = await launchIn(simulation, simulated, 'one')
    const frames = new Map<number, number>()
    control.events.on('progress', () => frames.set(simulation.clock.now(), (frames.get(simulation.clock.now()) ?? 0) + 1))
    const report = await run(control.agents.stop(id, { graceMs: 2_000 }))
    await pause(1_000)
    expect(report.resources).toHaveLength(200)
    expect([...frames.values()].every((count) => count <= 64)).toBe(true)
    // Each once at the beginning, the stubborn ones again at terminate.
    expect(told.filter(({ name }) => name === 'progress')).toHaveLength(250)
    expect(told.at(-1)?.name).toBe('report')
  })

  test('that nobody hears costs no turn: a listener that throws keeps nothing from going', async () => {
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

describe('several closes together', () => {
  test('are one in the history, with the resources of all, and one in what is told', async () => {
    const simulated = await begin({ plan: stubborn })
    const { control, told } = simulated
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
    expect(new Set(told.map((event) => event.id))).toEqual(new Set([id]))
    expect(told.at(-1)?.name).toBe('report')
    // Of what is everybody's, each namespace hears its own.
    const heard = told.flatMap((event) => (event.name === 'progress' ? [[event.resource.scope.id, event.namespace]] : []))
    expect(heard).toEqual(
      expect.arrayContaining([
        [one, 'one'],
        [two, 'two'],
      ]),
    )
  })

  test('include one that was under way before, which keeps its own id and report', async () => {
    const simulated = await begin({ plan: stubborn })
    const { control, told } = simulated
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
    const reports = told.filter(({ name }) => name === 'report')
    expect(reports.map((event) => event.id)).toEqual([running[1]?.id, reset.id])
  })

  test('whose report is out are told no more, though a part goes on', async () => {
    const simulated = await begin({ plan: () => [thing('a', { hears: 'kill', times: 1e6 })] })
    const { control, told, life } = simulated
    const id = await launchIn(simulation, simulated, 'one')
    const reset = control.cleanup.reset({ namespace: 'one', timeoutMs: 500 })
    await run(reset.report)
    const atReport = told.length
    simulation.world.things.delete(`${id}.1`)
    await pause(60_000)
    expect(told.slice(atReport).filter((event) => event.id === reset.id)).toEqual([])
    await run(life.engine.close(id, { trigger: 'terminated', force: true, forget: true }))
  })
})

test('the history reads a report once, however often it is asked', async () => {
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

describe('what the living agents take', () => {
  test('is one look for all who ask at once, by agent, without what attends to them', async () => {
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
