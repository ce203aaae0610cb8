import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { type ControlOptions, launchIn, type SimulatedControl, simulateControl } from '../support/simulated-control.ts'
import { listedKind, Simulation, thing } from '../support/simulation.ts'

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

describe('an archive that cannot be removed', () => {
  async function ended(simulated: SimulatedControl, count: number): Promise<readonly string[]> {
    const ids: string[] = []
    for (let n = 0; n < count; n++) ids.push(await launchIn(simulation, simulated, 'one'))
    for (const id of ids) await run(simulated.control.agents.stop(id, {}))
    return ids
  }

  test('of an ended agent leaves that one stuck, and a reset removes all the others', async () => {
    const simulated = await begin()
    const { control, immovable } = simulated
    const [first = '', second = '', third = ''] = await ended(simulated, 3)
    immovable.add(second)
    const told: string[] = []
    control.events.on('status', ({ agentId, status }) => told.push(`${agentId} ${status}`))
    const report = await run(control.cleanup.reset({ namespace: 'one' }).report)
    expect(report).toMatchObject({ success: false, cleanedAgentsCount: 2 })
    expect(report.errors[0]).toBe(`archive of agent ${second}: The archive ${second} is still there.`)
    expect(simulated.removed).toEqual(expect.arrayContaining([first, third]))
    expect((await run(control.agents.list({}))).agents).toMatchObject([{ id: second, status: 'stuck' }])
    expect(told).toEqual([`${second} stuck`])
    expect((await run(control.cleanup.status('one'))).stuck).toEqual([expect.stringContaining(second)])
    // It is still an agent that has ended.
    expect(await run(control.agents.stop(second, {}))).toMatchObject({ success: true, trigger: 'terminated' })
    immovable.clear()
    expect(await run(control.cleanup.reset({ namespace: 'one' }).report)).toMatchObject({ success: true, cleanedAgentsCount: 1 })
  })

  test('makes a deletion fail, and the row stuck, until it can be removed', async () => {
    const simulated = await begin()
    const { control, immovable } = simulated
    const [id = ''] = await ended(simulated, 1)
    immovable.add(id)
    for (let n = 0; n < 2; n++)
      await expect(run(control.agents.remove(id, {}))).rejects.toMatchObject({
        code: 'not_released',
        details: { success: false, errors: [expect.stringContaining('archive')] },
      })
    expect((await run(control.agents.get(id))).agent.status).toBe('stuck')
    immovable.clear()
    await run(control.agents.remove(id, {}))
    await expect(run(control.agents.get(id))).rejects.toMatchObject({ code: 'agent_not_found' })
  })

  test('of one that is being deleted makes that close fail, of this agent alone, and the reaper finishes it', async () => {
    const simulated = await begin({ plan: () => [thing('a')] })
    const { control, immovable } = simulated
    const ids = [await launchIn(simulation, simulated, 'one'), await launchIn(simulation, simulated, 'one')]
    const [left = '', gone = ''] = ids
    immovable.add(left)
    const report = await run(control.cleanup.reset({ namespace: 'one' }).report)
    expect(report).toMatchObject({ success: false, cleanedAgentsCount: 1, cleanedMessagesCount: 1 })
    expect(report.errors[0]).toBe(`archive of agent ${left}: The archive ${left} is still there.`)
    expect(report.errors.join()).not.toContain('ledger')
    expect((await run(control.agents.list({}))).agents).toMatchObject([{ id: left, status: 'stuck' }])
    expect(control.agents.living.has(gone)).toBe(false)
    immovable.clear()
    await simulation.pass(control.reaper)
    expect((await run(control.agents.list({}))).agents).toEqual([])
    expect(await simulation.openBooks()).toEqual([`scope ${simulated.life.engine.hostScopeId} open`])
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

describe('a reset that joins another', () => {
  test('shortens it to its own timeout, though it has no more force', async () => {
    const simulated = await begin({ plan: () => [thing('a', { hears: 'kill' })] })
    await launchIn(simulation, simulated, 'one')
    const startedMs = simulation.clock.now()
    const first = simulated.control.cleanup.reset({ namespace: 'one', timeoutMs: 60_000 })
    await run(simulation.clock.pause(100))
    const second = simulated.control.cleanup.reset({ namespace: 'one', timeoutMs: 1_000 })
    expect(second.id).toBe(first.id)
    expect(await run(second.report)).toMatchObject({ success: true })
    expect(simulation.clock.now() - startedMs).toBeLessThan(6_100)
  })

  test('answers in its own time, also when the first would wait for something that does not come back', async () => {
    const simulated = await begin({ plan: () => [thing('a')] })
    await launchIn(simulation, simulated, 'one')
    simulated.life.faults.next('ledger.incarnations', ['slow'], 50_000)
    const startedMs = simulation.clock.now()
    simulated.control.cleanup.reset({ namespace: 'one', timeoutMs: 60_000 })
    await run(simulation.clock.pause(100))
    const { report } = simulated.control.cleanup.reset({ namespace: 'one', timeoutMs: 1_000 })
    expect(await run(report)).toMatchObject({ success: false })
    expect(simulation.clock.now() - startedMs).toBeLessThan(6_100)
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

test('a launch that began before a reset is told so, and one after it is not', async () => {
  const simulated = await begin({ plan: () => [thing('a')] })
  const { control, life } = simulated
  const launch = (): Promise<unknown> => control.agents.launch({ type: 'simulated', prompt: '', namespace: 'one', configuration: {} })
  life.faults.next('ledger.intend', ['slow'], 500)
  const early = launch()
  early.catch(() => {})
  await run(simulation.clock.pause(100))
  await run(control.cleanup.reset({ namespace: 'one' }).report)
  await expect(run(early)).rejects.toMatchObject({ code: 'resetting' })
  life.faults.next('ledger.intend', ['refused'])
  await expect(run(launch())).rejects.toMatchObject({ code: 'launch_failed' })
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
