import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { Report } from '../../../../src/core/model/report.ts'
import type { Endings } from '../../../../src/core/ports/endings.ts'
import type { Planned } from '../../../../src/core/ports/kind.ts'
import { type Life, Simulation, thing, unlistedKind } from '../../../support/simulation.ts'

let simulation: Simulation
let life: Life

beforeEach(async () => {
  simulation = await Simulation.open()
  life = simulation.live()
})

afterEach(async () => {
  await simulation[Symbol.asyncDispose]()
  expect(simulation.world.violations).toEqual([])
})

const run = <T>(work: Promise<T>): Promise<T> => simulation.clock.run(work)
const pause = (ms: number): Promise<void> => run(simulation.clock.pause(ms))

async function agent(plan: readonly Planned[], id = 'agent', parentId?: string): Promise<void> {
  const scope = life.engine.openScope({ id, kind: 'agent', ...(parentId !== undefined && { parentId }) })
  await run(life.engine.launch(scope, plan))
}

function outcomes(report: Report): Record<string, string> {
  return Object.fromEntries(report.resources.map(({ name, outcome }) => [name, outcome]))
}

describe('close: ladder', () => {
  test('reports why a kill failed, even when the last attempt got no answer', async () => {
    const scope = life.engine.openScope({ id: 'agent', kind: 'agent' })
    await run(life.engine.launch(scope, [thing('a')]))
    life.faults.next('release', ['refused', ...Array.from({ length: 20 }, () => 'deaf' as const)])
    const report = await run(life.engine.close('agent', { trigger: 'terminated', force: true, deadlineMs: 4_000 }))
    expect(report).toMatchObject({
      success: false,
      resources: [{ outcome: 'stuck', error: expect.stringContaining('release was refused') }],
    })
    life.faults.isCalm = true
    await run(life.engine.close('agent', { trigger: 'terminated', force: true }))
  })

  test('ends at the exit, not at the end of the budget (G14)', async () => {
    await agent([thing('a')])
    const report = await run(life.engine.close('agent', { trigger: 'terminated' }))
    expect(report).toMatchObject({ success: true, duration: 0, resources: [{ steps: [{ step: 'polite', took: 0 }], outcome: 'released' }] })
  })

  test('gives polite and terminate half of the grace each, and then kills', async () => {
    await agent([thing('a', { hears: 'kill' })])
    const report = await run(life.engine.close('agent', { trigger: 'terminated', graceMs: 3_000 }))
    expect(report.resources[0]?.steps.map(({ step, took }) => [step, took])).toEqual([
      ['polite', 1_500],
      ['terminate', 1_500],
      ['kill', 0],
    ])
  })

  test('repeats a kill that had no effect', async () => {
    await agent([thing('a', { hears: 'kill', times: 4 })])
    const report = await run(life.engine.close('agent', { trigger: 'terminated', force: true }))
    expect(outcomes(report)).toEqual({ 'agent.1': 'released' })
    expect(simulation.world.releases).toHaveLength(4)
  })

  test.each(['mute', 'deaf'] as const)('does not wait without limit for a kill that is %s', async (fate) => {
    await agent([thing('a', { hears: 'kill' })])
    life.faults.next('release', [fate])
    const report = await run(life.engine.close('agent', { trigger: 'terminated', force: true }))
    expect(report.success).toBe(true)
    expect(report.duration).toBeLessThan(2_000)
  })

  test('reports stuck at the deadline, and the scope stays closing (G11)', async () => {
    await agent([thing('a', { hears: 'kill', times: 1_000 })])
    const report = await run(life.engine.close('agent', { trigger: 'terminated', graceMs: 0, deadlineMs: 4_000 }))
    expect(report).toMatchObject({ success: false, duration: 4_000, resources: [{ outcome: 'stuck' }] })
    expect(await simulation.openBooks()).toEqual(['agent.1 stuck', 'scope host-life1 open', 'scope agent closing'])
  })
})

test('close with a deadline of 0 ms still kills and observes, and rejects nothing', async () => {
  await agent([thing('a', { hears: 'kill' }), thing('b', { hears: 'kill' })])
  life.faults.next('gone', ['refused', 'refused'])
  life.faults.next('release', ['well', 'refused'])
  const report = await run(life.engine.close('agent', { trigger: 'process-exit', deadlineMs: 0 }))
  expect(outcomes(report)).toEqual({ 'agent.1': 'released', 'agent.2': 'stuck' })
})

describe('close: a resource that cannot be observed', () => {
  test('is neither released nor signalled (G4)', async () => {
    await agent([thing('a')])
    life.faults.blind(1_000)
    const report = await run(life.engine.close('agent', { trigger: 'terminated', force: true }))
    expect(report).toMatchObject({ success: false, resources: [{ outcome: 'stuck', error: 'the simulated probe is blind' }] })
    expect([simulation.world.releases, simulation.world.left()]).toEqual([[], ['listed agent.1']])
  })

  test('is observed again: one lost observation costs only a part of the deadline', async () => {
    await agent([thing('a')])
    life.faults.next('observe', ['deaf', 'refused'])
    expect(await run(life.engine.close('agent', { trigger: 'terminated' }))).toMatchObject({ success: true })
  })

  test('is stuck after a kill when no observation succeeds (G3)', async () => {
    await agent([thing('a', { hears: 'kill' })])
    life.faults.next('observe', ['well', ...Array.from({ length: 500 }, () => 'refused' as const)])
    const report = await run(life.engine.close('agent', { trigger: 'terminated', force: true }))
    expect(simulation.world.left()).toEqual([])
    expect(outcomes(report)).toEqual({ 'agent.1': 'stuck' })
  })
})

describe('close: order (G7)', () => {
  test('is the reverse of dependency, with independent branches in parallel', async () => {
    const slow = { hears: 'terminate' } as const
    await agent([
      thing('a'),
      thing('b', { dependsOn: ['a'], ...slow }),
      thing('c', { dependsOn: ['a'], ...slow }),
      thing('d', { dependsOn: ['b', 'c'] }),
    ])
    const report = await run(life.engine.close('agent', { trigger: 'terminated', graceMs: 2_000 }))
    expect(report.resources.map(({ name }) => name)).toEqual(['agent.4', 'agent.2', 'agent.3', 'agent.1'])
    expect(report.duration).toBe(1_000)
  })

  test('holds back the dependencies of a stuck resource', async () => {
    await agent([thing('a'), thing('b', { dependsOn: ['a'], hears: 'kill', times: 99 }), thing('c')])
    const report = await run(life.engine.close('agent', { trigger: 'terminated', force: true, deadlineMs: 2_000 }))
    expect(outcomes(report)).toEqual({ 'agent.2': 'stuck', 'agent.3': 'released', 'agent.1': 'held-back' })
    expect(simulation.world.left()).toEqual(['listed agent.1', 'listed agent.2'])
  })

  test('spans scopes: the dependencies of a stuck resource below are held back', async () => {
    await agent([thing('folder'), thing('other')], 'request')
    await agent([thing('tree', { dependsOn: ['request.1'], hears: 'kill', times: 99 })], 'agent', 'request')
    const report = await run(life.engine.close('request', { trigger: 'request-finished', force: true, deadlineMs: 2_000 }))
    expect(outcomes(report)).toEqual({ 'agent.1': 'stuck', 'request.1': 'held-back', 'request.2': 'released' })
  })
})

describe('close: two closes of one scope', () => {
  test('join: one operation, one report (G6)', async () => {
    await agent([thing('a', { hears: 'terminate' })])
    const [first, second] = [life.engine.close('agent', { trigger: 'terminated' }), life.engine.close('agent', { trigger: 'completed' })]
    expect(second).toBe(first)
    await run(first)
    expect(life.reports).toHaveLength(1)
    expect(simulation.world.releases).toEqual(['agent.1', 'agent.1'])
  })

  test('in a row: the second finds the scope clean and touches nothing (G5)', async () => {
    await agent([thing('a')])
    await run(life.engine.close('agent', { trigger: 'terminated' }))
    const { releases } = simulation.world
    const before = releases.length
    expect(await run(life.engine.close('agent', { trigger: 'deleted', force: true }))).toMatchObject({ success: true, resources: [] })
    expect(releases).toHaveLength(before)
    expect(life.logged.at(-1)).toMatch(/already clean/)
  })

  test('join: force reaches the running ladder at once, in scopes below, too', async () => {
    await agent([], 'request')
    await agent([thing('a', { hears: 'kill' })], 'agent', 'request')
    const closed = life.engine.close('request', { trigger: 'request-finished', graceMs: 60_000 })
    await pause(1_000)
    life.engine.close('request', { trigger: 'terminated', force: true })
    expect((await run(closed)).duration).toBe(1_000)
  })

  test('join: force reaches a gentle step that gets no answer', async () => {
    await agent([thing('a', { hears: 'kill' })])
    life.faults.next('release', ['deaf'])
    const closed = life.engine.close('agent', { trigger: 'terminated', graceMs: 60_000 })
    await pause(1_000)
    life.engine.close('agent', { trigger: 'terminated', force: true })
    expect((await run(closed)).duration).toBe(1_000)
  })

  test('join: deletion and the earlier deadline are stored, so that a recovery continues with them', async () => {
    await agent([thing('a', { hears: 'kill' })])
    life.engine.close('agent', { trigger: 'terminated', graceMs: 60_000 })
    life.engine.close('agent', { trigger: 'deleted', deadlineMs: 5_000 })
    await pause(10)
    const { scopes } = await run(simulation.store.contents())
    expect(scopes.find(({ id }) => id === 'agent')?.closeRequest).toMatchObject({ forget: true, deadlineMs: 5_000 })
  })

  test('close of the parent still deletes a scope below that had a deletion request', async () => {
    await agent([thing('own')], 'request')
    await agent([thing('log', { owes: ['archive'], hears: 'kill', times: 99 })], 'agent', 'request')
    await run(life.engine.close('agent', { trigger: 'deleted', graceMs: 0, deadlineMs: 100 }))
    simulation.world.heal('agent.1')
    expect(await run(life.engine.close('request', { trigger: 'request-finished' }))).toMatchObject({ success: true })
    expect(simulation.world.archive.size).toBe(0)
    expect((await run(simulation.store.contents())).scopes.map(({ id }) => id)).toEqual(['host-life1', 'request'])
  })
})

describe('close: sweep', () => {
  test('adopts and releases a resource that the ledger does not have', async () => {
    await agent([thing('a')])
    simulation.world.place({
      kind: 'listed',
      id: 'agent.9',
      scopeId: 'agent',
      incarnation: 'life1',
      dependsOn: [],
      spec: { hears: 'polite', times: 1, owes: [] },
    })
    const report = await run(life.engine.close('agent', { trigger: 'terminated' }))
    expect(outcomes(report)).toEqual({ 'agent.1': 'released', 'agent.9': 'released' })
    expect(simulation.world.left()).toEqual([])
  })

  test('records a released resource that came back as stuck, not as released', async () => {
    await agent([thing('a')], 'request')
    await agent([thing('b')], 'agent', 'request')
    simulation.world.comesBack('agent.1', { hears: 'kill', times: 99 })
    const report = await run(life.engine.close('request', { trigger: 'terminated', graceMs: 0, deadlineMs: 500 }))
    expect(report.success).toBe(false)
    expect(await simulation.openBooks()).toContain('agent.1 stuck')
  })

  test('repeats until a resource that keeps coming back is gone', async () => {
    await agent([thing('a')])
    simulation.world.comesBack('agent.1', { hears: 'polite', times: 1 }, 3)
    expect(await run(life.engine.close('agent', { trigger: 'terminated' }))).toMatchObject({ success: true })
    expect([simulation.world.left(), simulation.world.releases.length]).toEqual([[], 4])
  })

  test.each(['agent', 'request'])(
    'marks a resource that came back at the deadline as stuck, and its agent, too: close of %s (G11)',
    async (id) => {
      const stuck: string[] = []
      life = simulation.live({
        endings: {
          clear: async () => ({ left: new Map(), messagesGone: 0 }),
          prepare: async () => ({ ended: [], messagesGoing: 0 }),
          settled: (_scopes, _ended, left) => stuck.push(...left.filter(({ isStuck }) => isStuck).map((one) => one.id)),
          exited: async () => {},
          lost: async () => [],
        },
      })
      life.engine.openScope({ id: 'request', kind: 'request' })
      await agent([thing('a')], 'agent', 'request')
      simulation.world.comesBack('agent.1', { hears: 'polite', times: 1 }, 1_000)
      const report = await run(life.engine.close(id, { trigger: 'terminated', force: true, deadlineMs: 2_000 }))
      expect(report).toMatchObject({ success: false, errors: [expect.stringContaining('It existed again at the deadline.')] })
      expect(await simulation.openBooks()).toContain('agent.1 stuck')
      expect(stuck).toEqual(['agent'])
      simulation.world.comesBack('agent.1', { hears: 'polite', times: 1 }, 0)
      expect(await run(life.engine.close(id, { trigger: 'terminated' }))).toMatchObject({ success: true })
    },
  )

  test('reports a failed listing as an unknown resource, so the close is no success', async () => {
    await agent([thing('a')])
    life.faults.next('list', ['refused'])
    expect(await run(life.engine.close('agent', { trigger: 'terminated' }))).toMatchObject({
      success: false,
      resources: [{ outcome: 'released' }, { name: 'sweep', outcome: 'stuck' }],
    })
  })
})

describe('close: a ledger that cannot be written', () => {
  test('does not stop the kill, and is corrected by the reaper (G12)', async () => {
    await agent([thing('a'), thing('b', { kind: unlistedKind })])
    for (const write of ['beginClose', 'settle']) life.faults.next(`ledger.${write}`, ['refused'])
    const report = await run(life.engine.close('agent', { trigger: 'terminated' }))
    expect(report).toMatchObject({ success: true, errors: [expect.stringContaining('The ledger could not be written')] })
    expect(simulation.world.left()).toEqual([])
    expect(await simulation.openBooks()).toContain('agent.1 held')
    await simulation.pass(life.reaper)
    expect(await simulation.openBooks()).toEqual(['scope host-life1 open'])
  })

  test('does not keep a scope open that was closed before its record was written', async () => {
    life.faults.next('ledger.open', ['slow'], 1_500)
    const recorded = life.engine.record(life.engine.openScope({ id: 'agent', kind: 'agent' }))
    await pause(10)
    await run(life.engine.close('agent', { trigger: 'terminated' }))
    await run(recorded)
    await pause(5_000)
    expect(await simulation.openBooks()).toEqual(['scope host-life1 open'])
  })

  test.each([
    { what: 'is signalled once the ledger has the request', slowMs: 50, atMs: 50 },
    { what: 'is signalled after 100 ms when the ledger hangs', slowMs: 5_000, atMs: 100 },
  ])('a resource that outlives its supervisor $what (G6, G12)', async ({ slowMs, atMs }) => {
    await agent([{ ...thing('a', { hears: 'kill' }), onLoss: 'keep' }])
    life.faults.next('ledger.beginClose', ['slow'], slowMs)
    const closed = life.engine.close('agent', { trigger: 'terminated', force: true })
    await pause(atMs - 1)
    expect(simulation.world.releases).toEqual([])
    await pause(2)
    expect(simulation.world.releases).toEqual(['agent.1'])
    expect(await run(closed)).toMatchObject({ success: true })
  })
})

test('reports: an agent whose archive two overlapping closes could not remove counts as cleaned in neither, and never below zero', async () => {
  const answer = Promise.withResolvers<void>()
  const problem = { left: new Map([['agent', 'its archive is still there']]), messagesGone: 0 }
  let clears = 0
  const clear: Endings['clear'] = async (scopes) => {
    if (!scopes.some(({ id }) => id === 'agent')) return { left: new Map(), messagesGone: 0 }
    clears += 1
    if (clears === 2) await answer.promise
    return problem
  }
  const prepare: Endings['prepare'] = async () => ({ ended: [], messagesGoing: 0 })
  life = simulation.live({ endings: { clear, prepare, settled: () => {}, exited: async () => {}, lost: async () => [] } })
  life.engine.openScope({ id: 'request', kind: 'request' })
  await agent([thing('a')], 'agent', 'request')
  await agent([thing('slow', { hears: 'kill' })], 'neighbour', 'request')
  const first = life.engine.close('agent', { trigger: 'deleted' })
  const above = life.engine.close('request', { trigger: 'request-finished', graceMs: 2_000 })
  expect(await run(first)).toMatchObject({ success: false, cleanedAgentsCount: 0 })
  const second = life.engine.close('agent', { trigger: 'deleted' })
  expect(await run(above)).toMatchObject({ success: false, cleanedAgentsCount: 0 })
  answer.resolve()
  expect(await run(second)).toMatchObject({ success: false, cleanedAgentsCount: 0 })
})

test('resources: a running close shows each resource in its current state', async () => {
  await agent([thing('quick', { hears: 'kill' }), thing('below'), thing('slow', { hears: 'kill', times: 99, dependsOn: ['below'] })])
  const closed = life.engine.close('agent', { trigger: 'terminated', force: true })
  await pause(500)
  const resources = await run(life.engine.resources('agent'))
  expect(resources).toMatchObject([{ state: 'released', proof: { at: expect.any(String) } }, { state: 'closing' }, { state: 'closing' }])
  expect(resources[0]?.releasedAt).toBe(resources[0]?.proof?.at)
  expect(resources[2]?.proof).toBeUndefined()
  await run(closed)
  const waits = { state: 'closing', error: 'A resource that depends on it still exists.' }
  expect(await run(life.engine.resources('agent'))).toMatchObject([resources[0], waits, { state: 'stuck' }])
})

test('close: an observation without an answer names the kind and what is unknown', async () => {
  await agent([thing('a')])
  const kind = life.engine.parts.registry.find('agent')?.entries.values().next().value?.kind
  if (!kind) throw new Error('It was launched.')
  const { observe } = kind
  Object.assign(kind, { observe: () => new Promise<never>(() => {}) })
  const report = await run(life.engine.close('agent', { trigger: 'terminated', deadlineMs: 6_000 }))
  const [left] = report.resources
  expect(left).toMatchObject({
    outcome: 'stuck',
    error: `The observation of this ${left?.kind} got no answer in time, so it is unknown whether it still exists.`,
  })
  Object.assign(kind, { observe })
  expect(await run(life.engine.close('agent', { trigger: 'terminated', force: true }))).toMatchObject({ success: true })
})
