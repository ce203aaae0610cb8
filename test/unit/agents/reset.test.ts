import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { type ControlOptions, launchIn, type SimulatedControl, simulateControl } from '../../support/simulated-control.ts'
import { Simulation, thing } from '../../support/simulation.ts'

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

describe('archive that cannot be removed', () => {
  async function ended(simulated: SimulatedControl, count: number): Promise<readonly string[]> {
    const ids: string[] = []
    for (let n = 0; n < count; n++) ids.push(await launchIn(simulation, simulated, 'one'))
    for (const id of ids) await run(simulated.control.agents.stop(id, {}))
    return ids
  }

  test('a reset marks its agent stuck and removes all other ended agents', async () => {
    const simulated = await begin()
    const { control, immovable } = simulated
    const [first = '', second = '', third = ''] = await ended(simulated, 3)
    immovable.add(second)
    const statuses: string[] = []
    control.events.on('status', ({ agentId, status }) => statuses.push(`${agentId} ${status}`))
    const report = await run(control.cleanup.reset({ namespace: 'one' }).report)
    expect(report).toMatchObject({ success: false, cleanedAgentsCount: 2 })
    expect(report.errors[0]).toBe(`archive of agent ${second}: The archive ${second} is still there.`)
    expect(simulated.removed).toEqual(expect.arrayContaining([first, third]))
    expect((await run(control.agents.list({}))).agents).toMatchObject([{ id: second, status: 'stuck' }])
    expect(statuses).toEqual([`${second} stuck`])
    expect((await run(control.cleanup.status('one'))).stuck).toEqual([expect.stringContaining(second)])
    // The agent that is stuck still counts as ended.
    expect(await run(control.agents.stop(second, {}))).toMatchObject({ success: true, trigger: 'terminated' })
    immovable.clear()
    expect(await run(control.cleanup.reset({ namespace: 'one' }).report)).toMatchObject({ success: true, cleanedAgentsCount: 1 })
  })

  test('a deletion fails with not_released, and the row stays stuck until the archive can be removed', async () => {
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

  test('a reset of running agents fails for its agent only, and the reaper finishes the removal', async () => {
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
    await simulation.pass(simulated.life.reaper)
    expect((await run(control.agents.list({}))).agents).toEqual([])
    expect(await simulation.openBooks()).toEqual([`scope ${simulated.life.engine.hostScopeId} open`])
  })
})

describe('reset with a stuck resource', () => {
  /** Two ended agents, one running agent that ends on request, and one that does not end. */
  async function scene(): Promise<SimulatedControl & { readonly stuck: string }> {
    const things = [[], [], [thing('a')], [thing('b', { hears: 'kill', times: 1_000 })]]
    const simulated = await begin({ plan: () => things.shift() ?? [] })
    const ended = [await launchIn(simulation, simulated, 'one'), await launchIn(simulation, simulated, 'one')]
    for (const id of ended) await run(simulated.control.agents.stop(id, {}))
    await launchIn(simulation, simulated, 'one')
    return { ...simulated, stuck: await launchIn(simulation, simulated, 'one') }
  }

  test('tries the stuck resource once, and reports no database or timing error', async () => {
    const { control, stuck, life } = await scene()
    const startedMs = simulation.clock.now()
    const report = await run(control.cleanup.reset({}).report)
    expect(report).toMatchObject({ success: false, cleanedAgentsCount: 3, resources: [{ outcome: 'released' }, { outcome: 'stuck' }] })
    expect(report.errors.join('\n')).not.toMatch(/database|in time/)
    expect((await run(control.agents.list({}))).agents).toMatchObject([{ id: stuck, status: 'stuck' }])
    expect((await run(life.ledger.contents(life.id, 'open'))).resources).toMatchObject([{ scopeId: stuck, attempts: 1 }])
    // The reset takes the time of the ladder (the steps of a close) and of the kill after it, and no more.
    expect(simulation.clock.now() - startedMs).toBeLessThan(10_000 + 3_800 + 100)
  })

  test('reports when agents of a dead supervisor were not closed in time, and removes ended agents', async () => {
    const earlier = await scene()
    earlier.life.die()
    const { control } = await begin()
    const report = await run(control.cleanup.reset({ timeoutMs: 1_000 }).report)
    expect(report.success).toBe(false)
    expect(report.errors[0]).toBe('Agents of dead supervisors were not closed in time; the close continues.')
    expect(report.errors.join('\n')).not.toContain('database')
    expect(report.cleanedAgentsCount).toBe(2)
  })

  test('removes ended agents in parallel to the close, also when the close uses up its time', async () => {
    const { control, stuck } = await scene()
    const { agents } = simulation
    const remove = agents.remove.bind(agents)
    agents.remove = async (ids) => {
      await simulation.clock.pause(ids.length > 0 ? 2_000 : 0)
      return await remove(ids)
    }
    const trim = agents.trim.bind(agents)
    agents.trim = async (agentId) => {
      if (agentId === stuck) await simulation.clock.pause(60_000)
      return await trim(agentId)
    }
    simulation.world.things.clear()
    const report = await run(control.cleanup.reset({ timeoutMs: 1_000 }).report)
    expect(report).toMatchObject({ success: false, cleanedAgentsCount: 2 })
    expect(report.errors[0]).toBe('Not everything was closed in time; the close continues.')
    expect(report.errors.join('\n')).not.toContain('database')
  })
})

describe('reset that joins another reset', () => {
  test('shortens the joined reset to its own timeout, without force', async () => {
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

  test('answers within its own timeout when the joined reset waits for a hanging ledger call', async () => {
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

test('reset: waits for a recovery by another process, and finishes it when that process dies', async () => {
  const earlier = await begin({ plan: () => [thing('a')] })
  await launchIn(simulation, earlier, 'one')
  earlier.life.die()
  simulation.vitality.set('recovering', 'alive')
  await run(simulation.store.claim(earlier.life.id, 'recovering', undefined))
  const { control } = await begin()
  const { report } = control.cleanup.reset({ timeoutMs: 0 })
  simulation.clock.after(1_000, new AbortController().signal, () => simulation.vitality.set('recovering', 'dead'))
  expect(await run(report)).toMatchObject({ success: true, errors: [] })
  expect(simulation.world.left()).toEqual([])
})

test('launch: fails with resetting when it began before a reset, and with its own error when it began after', async () => {
  const simulated = await begin({ plan: () => [thing('a')] })
  const { control, life } = simulated
  const launch = (): Promise<unknown> => control.agents.launch({ type: 'simulated', prompt: '', namespace: 'one', configuration: {} })
  life.faults.next('ledger.intend', ['slow'], 500)
  const early = launch()
  // The rejection is ignored here, and handled where the promise is awaited below.
  early.catch(() => {})
  await run(simulation.clock.pause(100))
  await run(control.cleanup.reset({ namespace: 'one' }).report)
  await expect(run(early)).rejects.toMatchObject({ code: 'resetting' })
  life.faults.next('ledger.intend', ['refused'])
  await expect(run(launch())).rejects.toMatchObject({ code: 'launch_failed' })
})
