import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { type ControlOptions, launchIn, type SimulatedControl, simulateControl } from '../../support/simulated-control.ts'
import { listedKind, remoteKind, Simulation, thing } from '../../support/simulation.ts'

let simulation: Simulation

beforeEach(async () => {
  simulation = await Simulation.open(50)
})

afterEach(async () => {
  await simulation[Symbol.asyncDispose]()
})

const run = <T>(work: Promise<T>): Promise<T> => simulation.clock.run(work)

async function begin(options: ControlOptions = {}): Promise<SimulatedControl> {
  const simulated = simulateControl(simulation, options)
  await run(simulated.life.engine.begin())
  return simulated
}

/** Places a resource of a scope in the simulated system, without a ledger record. */
function leak(scopeId: string, incarnation: string): void {
  const spec = { hears: 'polite', times: 1, owes: [] } as const
  simulation.world.place({ kind: listedKind, id: `${scopeId}.9`, scopeId, incarnation, dependsOn: [], spec })
}

describe('cleanup status of a namespace', () => {
  test('counts a leak of a deleted agent, in the namespace of that agent only', async () => {
    const simulated = await begin()
    const { control, life, processes } = simulated
    const id = await launchIn(simulation, simulated, 'one')
    await run(control.agents.remove(id, {}))
    leak(id, life.id)
    processes.push({ pid: 7, resourceId: `${id}.9`, incarnation: life.id })
    expect(await run(control.cleanup.status('one'))).toMatchObject({ isClean: false, leaks: [`listed ${id}.9`], runningProcesses: 1 })
    expect((await run(control.cleanup.look('one'))).issues).toContainEqual(expect.stringContaining('process 7'))
    expect(await run(control.cleanup.status('two'))).toMatchObject({ isClean: true, leaks: [] })
  })

  test('counts a resource whose namespace is unknown (G4)', async () => {
    const { control } = await begin()
    leak('forgotten', 'dead-life')
    expect(await run(control.cleanup.status('one'))).toMatchObject({ isClean: false, leaks: ['listed forgotten.9'] })
  })

  test('counts a remote placement that does not answer only where the namespace uses it, and in the status of all (G4)', async () => {
    const simulated = await begin({ plan: () => [thing('task', { kind: remoteKind })] })
    const { control, life } = simulated
    await launchIn(simulation, simulated, 'cloudy')
    const leaksOf = async (namespace?: string): Promise<unknown> => {
      life.faults.next('list elsewhere', ['refused'])
      return (await run(control.cleanup.status(namespace))).leaks
    }
    expect(await leaksOf('local')).toEqual([])
    const leaks = [expect.stringContaining('elsewhere: simulated: list elsewhere was refused')]
    expect(await leaksOf('cloudy')).toEqual(leaks)
    expect(await leaksOf()).toEqual(leaks)
  })

  test('does not count resources of another namespace, of no namespace, or of another living supervisor', async () => {
    const simulated = await begin({ plan: () => [thing('a')] })
    await launchIn(simulation, simulated, 'two')
    const { control, life } = simulated
    const scope = life.engine.openScope({ id: 'by-itself', kind: 'agent' })
    await run(life.engine.launch(scope, [thing('a')]))
    // A request can hold resources itself, like an agent.
    const request = life.engine.openScope({ id: 'request', kind: 'request', parentId: control.namespaces.enter('two') })
    await run(life.engine.launch(request, [thing('a')]))
    simulation.vitality.set('other-life', 'alive')
    leak('theirs', 'other-life')
    expect(await run(control.cleanup.status('one'))).toMatchObject({ isClean: true, leaks: [] })
    expect(await run(control.cleanup.status('two'))).toMatchObject({ isClean: false, leaks: [], resources: { listed: { held: 2 } } })
  })

  test('the final check of a reset finds a resource that came back after the rows were removed', async () => {
    const simulated = await begin({ plan: () => [thing('a')] })
    const { control, life } = simulated
    const id = await launchIn(simulation, simulated, 'one')
    control.events.on('deleted', ({ agentId }) => leak(agentId, life.id))
    const report = await run(control.cleanup.reset({ namespace: 'one' }).report)
    expect(report).toMatchObject({ success: false, errors: [`leak: listed ${id}.9`] })
  })
})

describe('the end of agents', () => {
  test('waits for the exits of many agents in parallel', async () => {
    const simulated = await begin()
    const ids = [
      await launchIn(simulation, simulated, 'one'),
      await launchIn(simulation, simulated, 'one'),
      await launchIn(simulation, simulated, 'one'),
    ]
    // Each agent gets a process whose exit is never reported.
    for (const id of ids) simulated.control.agents.living.get(id)?.watchExit(1, new Promise(() => {}))
    const report = await run(simulated.control.cleanup.closeNamespace('one', 'request-finished', true))
    expect(report).toMatchObject({ success: true, errors: [] })
    expect((await run(simulated.control.agents.list({}))).agents.map(({ status }) => status)).toEqual(Array(3).fill('terminated'))
  })

  test('succeeds when deleting the messages of an agent takes long', async () => {
    const simulated = await begin()
    const id = await launchIn(simulation, simulated, 'one')
    const { agents } = simulation
    const trim = agents.trim.bind(agents)
    agents.trim = async (agentId) => {
      await simulation.clock.pause(60_000)
      return await trim(agentId)
    }
    const report = await run(simulated.life.engine.close(id, { trigger: 'deleted' }))
    expect(report).toMatchObject({ success: true, errors: [], cleanedMessagesCount: 1 })
  })
})

describe('request', () => {
  const name = { kind: 'request', namespace: 'one', id: 'r' } as const
  const close = async ({ control }: SimulatedControl) => await run(control.owners.close(name, false).then(({ report }) => report))

  test('the reports of two closes both name the request by its id', async () => {
    const simulated = await begin()
    await run(simulated.control.owners.open(name))
    for (let n = 0; n < 2; n++) expect(await close(simulated)).toMatchObject({ success: true, scope: { kind: 'request', id: 'r' } })
  })

  test('a close that joins a reset, or comes after the end, is in the history under the id that beginClose returned', async () => {
    const simulated = await begin({ plan: () => [thing('a', { hears: 'kill' })] })
    const { control } = simulated
    const reports: unknown[] = []
    control.events.on('report', ({ id, namespace }) => reports.push([id, namespace]))
    const launch = { type: 'simulated', prompt: '', namespace: 'one', requestId: 'r', configuration: {} }
    await run(control.agents.launch(launch))
    const { report } = control.cleanup.reset({ namespace: 'one', timeoutMs: 2_000 })
    const joined = await control.owners.beginClose(name, false)
    expect(await run(control.history.find(joined))).toMatchObject({ id: joined, state: 'running', progress: [{ kind: 'listed' }] })
    await run(report)
    const done = { state: 'done', success: true, scope: { kind: 'request', id: 'r' } }
    expect(await run(control.history.find(joined))).toMatchObject({ ...done, id: joined, report: { resources: [{}] } })
    expect(reports).toContainEqual([joined, 'one'])

    await run(control.agents.launch(launch))
    const own = await run(control.owners.beginClose(name, false))
    expect(await run(control.history.find(own))).toMatchObject({ id: own, state: 'running' })
    await close(simulated)
    const again = await run(control.owners.beginClose(name, false))
    expect(again).not.toBe(own)
    await run(simulation.clock.pause(100))
    expect(await run(control.history.find(own))).toMatchObject({ ...done, id: own, report: { resources: [{}] } })
    expect(await run(control.history.find(again))).toMatchObject({ ...done, id: again, report: { resources: [] } })
  })

  test('a concurrent open and enter share one scope', async () => {
    const { control } = await begin()
    const [opened, entered] = await run(Promise.all([control.owners.open(name), control.owners.enter(name)]))
    expect(entered).toBe(opened)
  })

  test('a close is refused while another process recovers its dead supervisor', async () => {
    const earlier = await begin()
    await run(earlier.control.owners.open(name))
    earlier.life.die()
    simulation.vitality.set('recovering', 'alive')
    await run(simulation.store.claim(earlier.life.id, 'recovering', undefined))
    const simulated = await begin()
    await expect(close(simulated)).rejects.toMatchObject({ code: 'agent_foreign' })
    simulation.vitality.set('recovering', 'dead')
    expect(await close(simulated)).toMatchObject({ success: true, scope: { kind: 'request', id: 'r' } })
    expect(await run(simulated.control.owners.find(name))).toMatchObject({ state: 'closed' })
  })
})

test('status: a version query of this process that runs is no leftover, and one that could not be closed is (G11)', async () => {
  const { control, life } = await begin()
  const probe = life.engine.openScope({ id: 'probe-1', kind: 'request' })
  await run(life.engine.launch(probe, [thing('a', { hears: 'kill', times: 99 })]))
  expect(await run(control.cleanup.status(undefined))).toMatchObject({ isClean: true, resources: {} })
  await run(life.engine.close(probe.id, { trigger: 'completed', force: true }, { isPart: true }))
  expect(await run(control.cleanup.status(undefined))).toMatchObject({ isClean: false, stuck: [expect.stringContaining('probe-1.1')] })
})

test('launch: one whose intents are refused leaves no row, because both are one transaction', async () => {
  const { control, life } = await begin()
  life.faults.next('ledger.intend', ['refused'])
  await expect(run(control.agents.launch({ type: 'simulated', prompt: '', namespace: 'one', configuration: {} }))).rejects.toThrow()
  const { agents } = simulation
  expect([(await run(agents.list({}))).agents, await run(agents.totals(undefined, new Set()))]).toEqual([[], { agents: 0, messages: 0 }])
})

test('recovery: ends an agent with a row and without a scope, which an earlier version of Ebb has left', async () => {
  const row = { id: 'left', type: 't', placement: 'process', namespace: 'one', prompt: '', configuration: {}, incarnation: 'dead' }
  const left = simulation.agents.newAgent({ ...row, createdAt: simulation.clock.wall() }, { id: 'm', type: 'user', content: '' })
  await run(simulation.store.open({ scopes: [], rows: [left] }))
  const { control, life } = await begin()
  simulation.vitality.set('dead', 'dead')
  await run(life.engine.recover())
  expect((await run(control.agents.get('left'))).agent).toMatchObject({ status: 'failed', error: { name: 'supervisor_lost' } })
  expect(await run(control.agents.stop('left', {}))).toMatchObject({ success: true, trigger: 'recovery' })
  await run(control.agents.remove('left', {}))
  expect((await run(control.agents.list({}))).agents).toEqual([])
})

test('launch: waiting launches count against the agent limit', async () => {
  const simulated = await begin({ maxAgents: 6, plan: () => [thing('a')] })
  simulated.life.faults.next('ledger.intend', Array(4).fill('slow'), 1_000)
  const launch = (): Promise<unknown> =>
    simulated.control.agents.launch({ type: 'simulated', prompt: '', namespace: 'one', configuration: {} }).then(
      () => 'launched',
      (error: { code: string }) => `${error.code} at ${simulation.clock.now() - startedMs}`,
    )
  const startedMs = simulation.clock.now()
  const answers = await run(Promise.all(Array.from({ length: 8 }, launch)))
  expect(answers).toEqual([...Array(6).fill('launched'), ...Array(2).fill('too_many_agents at 0')])
  expect(simulated.control.agents.living.size).toBe(6)
})

test('recovery: does not end an agent of a living supervisor that the ledger does not have yet', async () => {
  const { life, control } = await begin()
  simulation.vitality.set('newcomer', 'alive')
  const row = { id: 'theirs', type: 't', placement: 'process', namespace: 'one', prompt: '', configuration: {}, incarnation: 'newcomer' }
  const theirs = simulation.agents.newAgent({ ...row, createdAt: simulation.clock.wall() }, { id: 'm', type: 'user', content: '' })
  await run(simulation.store.open({ scopes: [], rows: [theirs] }))
  await run(life.engine.recover())
  expect((await run(control.agents.get('theirs'))).agent.status).toBe('initializing')
})

test('alert: a reset of a namespace resets the counts of failed closes in it', async () => {
  const { control } = await begin({ plan: () => [thing('a', { hears: 'kill', times: 1_000 })] })
  const alerts: unknown[] = []
  control.events.on('alert', (alert) => alerts.push(alert))
  const name = { kind: 'request', namespace: 'one', id: 'r' } as const
  const fail = async (): Promise<void> => {
    expect(await run(control.owners.close(name, true).then(({ report }) => report))).toMatchObject({ success: false })
  }
  const launch = { type: 'simulated', prompt: '', namespace: 'one', requestId: 'r', configuration: {} }
  await run(control.agents.launch(launch))
  await fail()
  await fail()
  simulation.world.things.clear()
  expect(await run(control.cleanup.reset({ namespace: 'one' }).report)).toMatchObject({ success: true })
  await run(control.agents.launch(launch))
  await fail()
  expect(alerts).toEqual([])
  await fail()
  await fail()
  expect(alerts).toHaveLength(1)
})
