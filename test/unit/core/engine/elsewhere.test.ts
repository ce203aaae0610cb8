import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import type { Planned, ResourceKind } from '../../../../src/core/ports/kind.ts'
import { type Life, lastKind, remoteKind, Simulation, thing } from '../../../support/simulation.ts'

/** Remote resources are slow to go, slow to answer, and sometimes have obligations that cannot be met. */

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

async function agent(plan: readonly Planned[]): Promise<void> {
  await run(life.engine.launch(life.engine.openScope({ id: 'agent', kind: 'agent' }), plan))
}

const times = <T>(count: number, value: T): T[] => Array.from({ length: count }, () => value)

describe('close: independent branches', () => {
  test('do not wait for each other (G7)', async () => {
    // One branch uses up the whole grace of its first steps. The other branch has three levels, whose resources end at once.
    await agent([
      thing('slow', { hears: 'kill' }),
      thing('base', {}),
      thing('middle', { dependsOn: ['base'] }),
      thing('top', { dependsOn: ['middle'] }),
    ])
    const report = await run(life.engine.close('agent', { trigger: 'terminated', graceMs: 4_000 }))
    const began = Object.fromEntries(report.resources.map(({ name, steps }) => [name, Date.parse(steps[0]?.at ?? '')]))
    expect(report).toMatchObject({ success: true, duration: 4_000 })
    expect(began['agent.2']).toBe(began['agent.1'])
    expect(simulation.world.releases).toEqual(['agent.1', 'agent.4', 'agent.3', 'agent.2', 'agent.1', 'agent.1'])
  })

  test('a held-back resource holds back only its own branch', async () => {
    await agent([
      thing('task', {}),
      thing('upload', { dependsOn: ['task'], owes: ['upload'] }),
      thing('target', { dependsOn: ['task'] }),
      thing('log', {}),
    ])
    life.faults.next('meet', ['refused'])
    const report = await run(life.engine.close('agent', { trigger: 'terminated' }))
    expect(Object.fromEntries(report.resources.map(({ name, outcome }) => [name, outcome]))).toEqual({
      'agent.1': 'held-back',
      'agent.2': 'held-back',
      'agent.3': 'released',
      'agent.4': 'released',
    })
    expect(simulation.world.left()).toEqual(['listed agent.1', 'listed agent.2'])
  })
})

describe('patienceMs of a kind', () => {
  // A resource that ends at the seventh kill. The waits after the kills are half a second, then one, two, four … seconds, together more
  // than half a minute.
  const draining = { hears: 'kill', times: 7, patienceMs: 120_000 } as const

  test('extends a close without a deadline', async () => {
    await agent([thing('target', draining)])
    const report = await run(life.engine.close('agent', { trigger: 'request-finished', graceMs: 0 }))
    expect(report).toMatchObject({ success: true, resources: [{ outcome: 'released' }] })
    expect(report.duration).toBeGreaterThan(30_000)
  })

  test('counts from the start of the release of each resource', async () => {
    await agent([thing('task', draining), thing('target', { ...draining, patienceMs: 60_000, dependsOn: ['task'] })])
    expect(await run(life.engine.close('agent', { trigger: 'request-finished', graceMs: 0 }))).toMatchObject({ success: true })
  })

  test.each([
    ['a deadline', { trigger: 'deleted', graceMs: 0, deadlineMs: 5_000 } as const],
    ['force', { trigger: 'terminated', force: true } as const],
    ['an exit', { trigger: 'process-exit', graceMs: 0 } as const],
  ])('does not apply under %s: the resource is stuck', async (_what, closeRequest) => {
    await agent([thing('target', draining)])
    const report = await run(life.engine.close('agent', closeRequest))
    expect(report).toMatchObject({ success: false, resources: [{ outcome: 'stuck' }] })
    expect(report.duration).toBeLessThan(15_000)
    simulation.world.heal('agent.1')
    expect(await run(life.engine.close('agent', { trigger: 'terminated', force: true }))).toMatchObject({ success: true })
  })

  test('applies in a recovery, whatever the deadline of the exit before it was', async () => {
    await agent([thing('task', draining)])
    expect(await run(life.engine.close('agent', { trigger: 'process-exit', graceMs: 0, deadlineMs: 2_000 }))).toMatchObject({
      success: false,
    })
    life.die()
    const next = simulation.live()
    expect((await run(next.engine.recover())).reports[0]).toMatchObject({ success: true, resources: [{ outcome: 'released' }] })
  })

  test('ends when a forced close joins (G6)', async () => {
    await agent([thing('target', { ...draining, times: 1_000 })])
    const closing = life.engine.close('agent', { trigger: 'request-finished', graceMs: 0 })
    await run(simulation.clock.pause(20_000))
    await run(life.engine.close('agent', { trigger: 'terminated', force: true }))
    expect(await run(closing)).toMatchObject({ success: false, resources: [{ outcome: 'stuck' }] })
    expect((await closing).duration).toBeLessThan(40_000)
    simulation.world.heal('agent.1')
    expect(await run(life.engine.close('agent', { trigger: 'terminated', force: true }))).toMatchObject({ success: true })
  })

  test('is followed by the full time of a deletion that joins after the deadline (G6)', async () => {
    await agent([thing('container', { hears: 'kill', times: 3, owes: ['output'], patienceMs: 120_000 })])
    life.faults.next('meet', ['slow'], 100_000)
    const closing = life.engine.close('agent', { trigger: 'completed', graceMs: 0 })
    await run(simulation.clock.pause(60_000))
    const deleted = await run(life.engine.close('agent', { trigger: 'deleted', forget: true, force: true }))
    expect(deleted).toMatchObject({ success: true, resources: [{ outcome: 'released' }] })
    expect((await closing).duration).toBeLessThan(72_000)
  })

  test('starts again after the obligations are met', async () => {
    await agent([thing('container', { hears: 'kill', times: 7, owes: ['output'], patienceMs: 60_000 })])
    life.faults.next('meet', ['slow'], 50_000)
    expect(await run(life.engine.close('agent', { trigger: 'completed', graceMs: 0 }))).toMatchObject({ success: true })
  })

  test('does not apply to a resource that cannot be observed (G4)', async () => {
    await agent([thing('task', { hears: 'kill', patienceMs: 600_000 })])
    life.faults.blind(2_000)
    const report = await run(life.engine.close('agent', { trigger: 'terminated', graceMs: 0 }))
    expect(report).toMatchObject({ success: false, resources: [{ outcome: 'stuck', error: 'the simulated probe is blind' }] })
    expect(report.duration).toBeLessThan(20_000)
    expect(simulation.world.releases).toEqual([])
    life.faults.blind(0)
    expect(await run(life.engine.close('agent', { trigger: 'terminated', force: true }))).toMatchObject({ success: true })
  })
})

describe('unknown that settles by waiting', () => {
  test.each([
    ['is waited for within its patience', { patienceMs: 60_000 }, true],
    ['is not waited for beyond it', { patienceMs: 20_000 }, false],
  ])('%s', async (_what, nature, success) => {
    await agent([thing('task', { ...nature, settles: true })])
    // The resource is observed at most every half second, so 66 failed observations take half a minute.
    life.faults.blind(66)
    expect(await run(life.engine.close('agent', { trigger: 'recovery' }))).toMatchObject({ success })
    life.faults.blind(0)
    await run(life.engine.close('agent', { trigger: 'recovery' }))
  })
})

test('launch: fails with scope_closed when its scope is closed meanwhile, whatever the aborted creation says', async () => {
  const scope = life.engine.openScope({ id: 'agent', kind: 'agent' })
  const kind = life.engine.parts.kinds.get('listed') as ResourceKind
  const begun = Promise.withResolvers<void>()
  vi.spyOn(kind, 'create').mockImplementationOnce((_ref, _spec, { signal }) => {
    begun.resolve()
    return new Promise((_, reject) => signal.addEventListener('abort', () => reject(new Error('the call was given up'))))
  })
  const launching = life.engine.launch(scope, [thing('task', {})])
  launching.catch(() => {})
  await run(begun.promise)
  const closing = life.engine.close('agent', { trigger: 'request-finished' })
  await expect(run(launching)).rejects.toMatchObject({ code: 'scope_closed' })
  expect(await run(closing)).toMatchObject({ success: true })
})

describe('givesUpAfterMs of a kind', () => {
  test('counts from the first failure, across recoveries (G9)', async () => {
    await agent([thing('upload', { owes: ['upload'], givesUpAfterMs: 600_000 })])
    life.faults.next('meet', times(1_000, 'refused' as const))
    expect(await run(life.engine.close('agent', { trigger: 'request-finished' }))).toMatchObject({ success: false })
    await run(simulation.clock.pause(590_000))
    life.die()
    const second = simulation.live()
    second.faults.next('meet', times(1_000, 'refused' as const))
    expect((await run(second.engine.recover())).reports[0]).toMatchObject({ success: false, gaveUp: [] })
    await run(simulation.clock.pause(20_000))
    second.die()
    const third = simulation.live()
    third.faults.next('meet', times(1_000, 'refused' as const))
    const { reports } = await run(third.engine.recover())
    expect(reports[0]).toMatchObject({ success: true, gaveUp: [expect.stringContaining('upload')] })
  })

  test('holds back until the time is over, then gives up, and the report says so (G8)', async () => {
    await agent([thing('task', {}), thing('upload', { dependsOn: ['task'], owes: ['upload'], givesUpAfterMs: 600_000 })])
    life.faults.next('meet', times(1_000, 'refused' as const))
    expect(await run(life.engine.close('agent', { trigger: 'request-finished' }))).toMatchObject({ success: false, gaveUp: [] })
    await run(simulation.clock.pause(599_000))
    expect(await run(life.engine.close('agent', { trigger: 'reaper' }))).toMatchObject({ success: false, gaveUp: [] })
    await run(simulation.clock.pause(1_000))
    const report = await run(life.engine.close('agent', { trigger: 'reaper' }))
    expect(report).toMatchObject({ success: true, gaveUp: [expect.stringContaining('upload of agent.2')] })
    expect(simulation.world.left()).toEqual([])
  })
})

describe('listing of remote kinds', () => {
  const asked = (): number => life.faults.calls('list elsewhere')

  test('is skipped by a close whose scopes had no resource of the kind', async () => {
    await agent([thing('a')])
    await run(life.engine.close('agent', { trigger: 'terminated' }))
    expect(asked()).toBe(0)
  })

  test('is made by a close whose scopes had such a resource, and what it finds is released', async () => {
    await agent([thing('a', { kind: remoteKind })])
    simulation.world.comesBack('agent.1', { hears: 'polite', times: 1 })
    expect(await run(life.engine.close('agent', { trigger: 'terminated' }))).toMatchObject({ success: true })
    expect(asked()).toBeGreaterThan(0)
    expect(simulation.world.left()).toEqual([])
  })

  test('reap with sparesElsewhere shows unrecorded remote resources without ending them', async () => {
    await run(life.engine.begin())
    const spec = { hears: 'polite', times: 1, owes: [] } as const
    const orphan = (id: string, kind: string) => ({
      kind,
      id,
      scopeId: id.split('.')[0] ?? '',
      incarnation: 'long-dead',
      spec,
      dependsOn: [],
    })
    simulation.world.place(orphan('there.1', remoteKind))
    simulation.world.place(orphan('here.1', 'listed'))
    const pass = (sparesRemote: boolean) => run(life.reaper.pass({ dryRun: false, sparesRemote }))
    await pass(true)
    await run(simulation.clock.pause(10_000))
    expect(await pass(true)).toMatchObject({
      released: [{ name: 'here.1' }],
      left: [{ name: 'there.1', isSpared: true, detail: expect.stringMatching(/first seen 1\d s ago$/) }],
    })
    expect(await pass(false)).toMatchObject({ released: [{ name: 'there.1' }], left: [] })
    expect(simulation.world.left()).toEqual([])
  })

  test('reap releases unrecorded resources of a goesLast kind after the others', async () => {
    await run(life.engine.begin())
    const spec = { hears: 'polite', times: 1, owes: [] } as const
    const orphans = [
      ['listed', 3],
      [lastKind, 4],
      ['listed', 5],
    ] as const
    for (const [kind, ordinal] of orphans)
      simulation.world.place({ kind, id: `agent.${ordinal}`, scopeId: 'agent', incarnation: 'long-dead', spec, dependsOn: [] })
    await simulation.pass(life.reaper)
    await run(simulation.clock.pause(10_000))
    await simulation.pass(life.reaper)
    expect(simulation.world.releases).toEqual(['agent.5', 'agent.3', 'agent.4'])
  })

  test('is made by every reaper pass', async () => {
    await run(life.engine.begin())
    await simulation.pass(life.reaper, true)
    expect(asked()).toBe(1)
  })
})

describe('recovery without the settings of a placement', () => {
  test('leaves the resources of that placement to other processes, and recovers the rest', async () => {
    const dead = simulation.live()
    const launch = async (id: string, plan: readonly Planned[]): Promise<void> => {
      await run(dead.engine.launch(dead.engine.openScope({ id, kind: 'agent' }), plan))
    }
    await launch('there', [thing('log', {}), thing('task', { kind: remoteKind, dependsOn: ['log'] })])
    await launch('here', [thing('tree', {})])
    dead.die()
    const stranger = simulation.live({ knowsElsewhere: false })
    const { errors, reports } = await run(stranger.engine.recover())
    expect(reports).toMatchObject([{ success: true, scope: { id: 'here' } }])
    expect(errors).toEqual([expect.stringContaining('elsewhere there.2 of a dead supervisor needs the settings of its placement')])
    expect(simulation.world.left()).toEqual(['listed there.1', 'elsewhere there.2'])
    expect(await run(simulation.store.incarnations())).toContainEqual(expect.objectContaining({ id: dead.id, claimedBy: undefined }))

    const { errors: none } = await run(simulation.live().engine.recover())
    expect(none).toEqual([])
    expect(simulation.world.left()).toEqual([])
  })
})
