import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { type ControlOptions, launchIn, type SimulatedControl, simulateControl } from '../../support/simulated-control.ts'
import { remoteKind, listedKind, Simulation, thing } from '../../support/simulation.ts'

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

/** Something of a scope is in the world, and on no books. */
function leak(scopeId: string, incarnation: string): void {
  const spec = { hears: 'polite', times: 1, owes: [] } as const
  simulation.world.place({ kind: listedKind, id: `${scopeId}.9`, scopeId, incarnation, dependsOn: [], spec })
}

describe('in a namespace', () => {
  test('a leak of an agent that is deleted is seen, and not in the others', async () => {
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

  test('what nobody can say whose it is counts: it may be its own (G4)', async () => {
    const { control } = await begin()
    leak('forgotten', 'dead-life')
    expect(await run(control.cleanup.status('one'))).toMatchObject({ isClean: false, leaks: ['listed forgotten.9'] })
  })

  test('somewhere else that does not answer counts where something of its own is there, and in the whole world (G4)', async () => {
    const simulated = await begin({ plan: () => [thing('task', { kind: remoteKind })] })
    const { control, life } = simulated
    await launchIn(simulation, simulated, 'cloudy')
    const asked = async (namespace?: string): Promise<unknown> => {
      life.faults.next('list elsewhere', ['refused'])
      return (await run(control.cleanup.status(namespace))).leaks
    }
    expect(await asked('local')).toEqual([])
    const told = [expect.stringContaining('elsewhere: simulated: list elsewhere was refused')]
    expect(await asked('cloudy')).toEqual(told)
    expect(await asked()).toEqual(told)
  })

  test('what is of another namespace, of no namespace, or of another living supervisor does not count', async () => {
    const simulated = await begin({ plan: () => [thing('a')] })
    await launchIn(simulation, simulated, 'two')
    const { control, life } = simulated
    const scope = life.engine.openScope({ id: 'by-itself', kind: 'agent' })
    await run(life.engine.launch(scope, [thing('a')]))
    // A request may hold something too.
    const request = life.engine.openScope({ id: 'request', kind: 'request', parentId: control.namespaces.enter('two') })
    await run(life.engine.launch(request, [thing('a')]))
    simulation.vitality.set('other-life', 'alive')
    leak('theirs', 'other-life')
    expect(await run(control.cleanup.status('one'))).toMatchObject({ isClean: true, leaks: [] })
    expect(await run(control.cleanup.status('two'))).toMatchObject({ isClean: false, leaks: [], resources: { listed: { held: 2 } } })
  })

  test('the last look of a reset sees what came back after the rows had gone', async () => {
    const simulated = await begin({ plan: () => [thing('a')] })
    const { control, life } = simulated
    const id = await launchIn(simulation, simulated, 'one')
    control.events.on('deleted', ({ agentId }) => leak(agentId, life.id))
    const report = await run(control.cleanup.reset({ namespace: 'one' }).report)
    expect(report).toMatchObject({ success: false, errors: [`leak: listed ${id}.9`] })
  })
})

describe('the books of an end', () => {
  test('wait for the last days of many agents as long as for those of one', async () => {
    const simulated = await begin()
    const ids = [
      await launchIn(simulation, simulated, 'one'),
      await launchIn(simulation, simulated, 'one'),
      await launchIn(simulation, simulated, 'one'),
    ]
    // Their exits never come.
    for (const id of ids) simulated.control.agents.living.get(id)?.watchExit(1, new Promise(() => {}))
    const report = await run(simulated.control.cleanup.closeNamespace('one', 'request-finished', true))
    expect(report).toMatchObject({ success: true, errors: [] })
    expect((await run(simulated.control.agents.list({}))).agents.map(({ status }) => status)).toEqual(Array(3).fill('terminated'))
  })

  test('are not hurried by an agent with so much to say that it takes time to delete', async () => {
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

describe('a request', () => {
  const name = { kind: 'request', namespace: 'one', id: 'r' } as const
  const close = async ({ control }: SimulatedControl) => await run(control.owners.close(name, false).then(({ report }) => report))

  test('that is cleaned up twice is called by its name both times', async () => {
    const simulated = await begin()
    await run(simulated.control.owners.open(name))
    for (let n = 0; n < 2; n++) expect(await close(simulated)).toMatchObject({ success: true, scope: { kind: 'request', id: 'r' } })
  })

  test('that is over, or ends with its namespace, is in the history under the id that was given for it', async () => {
    const simulated = await begin({ plan: () => [thing('a', { hears: 'kill' })] })
    const { control } = simulated
    const told: unknown[] = []
    control.events.on('report', ({ id, namespace }) => told.push([id, namespace]))
    const launch = { type: 'simulated', prompt: '', namespace: 'one', requestId: 'r', configuration: {} }
    await run(control.agents.launch(launch))
    const { report } = control.cleanup.reset({ namespace: 'one', timeoutMs: 2_000 })
    const joined = await control.owners.beginClose(name, false)
    expect(await run(control.history.find(joined))).toMatchObject({ id: joined, state: 'running', progress: [{ kind: 'listed' }] })
    await run(report)
    const done = { state: 'done', success: true, scope: { kind: 'request', id: 'r' } }
    expect(await run(control.history.find(joined))).toMatchObject({ ...done, id: joined, report: { resources: [{}] } })
    expect(told).toContainEqual([joined, 'one'])

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

  test('that is opened by itself while an agent comes for it takes the agent in', async () => {
    const { control } = await begin()
    const [opened, entered] = await run(Promise.all([control.owners.open(name), control.owners.enter(name)]))
    expect(entered).toBe(opened)
  })

  test('of a dead supervisor that another process is recovering is not said to be clean', async () => {
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

test('an agent whose row was written and whose scope was not, when its supervisor died, is ended by the recovery', async () => {
  const earlier = await begin()
  earlier.life.faults.next('ledger.openScope', ['well', 'refused'])
  earlier.life.faults.next('ledger.settle', ['slow'], 10_000)
  earlier.control.agents.launch({ type: 'simulated', prompt: '', namespace: 'one', configuration: {} }).catch(() => {})
  await run(simulation.clock.pause(100))
  earlier.life.die()
  const [row] = (await run(simulation.agents.list({}))).agents
  expect(row).toMatchObject({ status: 'stopping' })

  const { control, life } = await begin()
  await run(life.engine.recover())
  expect((await run(control.agents.get(row?.id ?? ''))).agent).toMatchObject({ status: 'failed', error: { name: 'supervisor_lost' } })
  expect(await run(control.agents.stop(row?.id ?? '', {}))).toMatchObject({ success: true, trigger: 'recovery' })
  await run(control.agents.remove(row?.id ?? '', {}))
  expect((await run(control.agents.list({}))).agents).toEqual([])
})

test('launches that wait for their turn count as agents', async () => {
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

test('an agent of a supervisor that lives, and is not yet on the books that a recovery has read, is not ended by it', async () => {
  const { life, control } = await begin()
  simulation.vitality.set('newcomer', 'alive')
  const row = { id: 'theirs', type: 't', placement: 'process', namespace: 'one', prompt: '', configuration: {}, incarnation: 'newcomer' }
  await run(simulation.agents.create({ ...row, createdAt: simulation.clock.wall() }, { id: 'm', type: 'user', content: '' }))
  await run(life.engine.recover())
  expect((await run(control.agents.get('theirs'))).agent.status).toBe('initializing')
})

test('what failed in a namespace is forgotten with its reset: the next to carry that name begins anew', async () => {
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
