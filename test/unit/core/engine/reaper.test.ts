import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { listAll } from '../../../../src/core/engine/sweep.ts'
import { type Life, listedKind, Simulation, thing, unlistedKind } from '../../../support/simulation.ts'

let simulation: Simulation
let life: Life

beforeEach(async () => {
  simulation = await Simulation.open()
  life = simulation.live({ minimumAgeMs: 5_000 })
  await simulation.clock.run(life.engine.begin())
})

afterEach(async () => {
  await simulation[Symbol.asyncDispose]()
  expect(simulation.world.violations).toEqual([])
})

const run = <T>(work: Promise<T>): Promise<T> => simulation.clock.run(work)
const pause = (ms: number): Promise<void> => run(simulation.clock.pause(ms))

/** A resource with Ebb's mark that is in no ledger, created by an incarnation that is dead by default. */
function stray(id: string, incarnation = 'lost-life', kind = listedKind): void {
  const scopeId = id.slice(0, id.lastIndexOf('.'))
  simulation.world.place({ kind, id, scopeId, incarnation, dependsOn: [], spec: { hears: 'polite', times: 1, owes: [] } })
}

describe('reaper: an unrecorded thing', () => {
  test('is ended after two sightings and the minimum age, and not before', async () => {
    stray('old.1')
    expect(await simulation.pass(life.reaper)).toMatchObject({ found: [{ why: 'unrecorded' }], released: [], left: [{ name: 'old.1' }] })
    expect((await simulation.pass(life.reaper)).released).toEqual([])
    await pause(5_000)
    expect((await simulation.pass(life.reaper)).released).toMatchObject([{ name: 'old.1' }])
    expect([simulation.world.left(), await simulation.openBooks()]).toEqual([[], ['scope host-life1 open']])
  })

  test('is not ended at its first sighting, however late that is', async () => {
    await pause(60_000)
    stray('old.1')
    expect((await simulation.pass(life.reaper)).left).toHaveLength(1)
  })

  test('needs two sightings even without a minimum age', async () => {
    const eager = simulation.live({ minimumAgeMs: 0 })
    await run(eager.engine.begin())
    stray('old.1')
    expect((await simulation.pass(eager.reaper)).released).toEqual([])
    expect((await simulation.pass(eager.reaper)).released).toMatchObject([{ name: 'old.1' }])
  })

  test('starts with a first sighting again when it disappeared and came back', async () => {
    stray('old.1')
    await simulation.pass(life.reaper)
    simulation.world.things.clear()
    await pause(10_000)
    await simulation.pass(life.reaper)
    stray('old.1')
    expect((await simulation.pass(life.reaper)).left).toHaveLength(1)
  })

  test.each(['alive', 'unknown'] as const)('is not touched when its incarnation is %s', async (vitality) => {
    simulation.vitality.set('other-life', vitality)
    stray('theirs.1', 'other-life')
    for (let pass = 0; pass < 3; pass++) {
      expect((await simulation.pass(life.reaper)).released).toEqual([])
      await pause(10_000)
    }
    expect(simulation.world.left()).toEqual(['listed theirs.1'])
  })

  test('is not touched by any number of dry runs', async () => {
    stray('old.1')
    for (let pass = 0; pass < 3; pass++) {
      expect(await simulation.pass(life.reaper, true)).toMatchObject({ released: [], left: [{ name: 'old.1' }] })
      await pause(10_000)
    }
    expect([simulation.world.releases, simulation.world.left()]).toEqual([[], ['listed old.1']])
  })

  test('does not keep others from being ended when it cannot be ended', async () => {
    for (const id of ['a.1', 'b.1', 'c.1']) stray(id)
    await simulation.pass(life.reaper)
    await pause(5_000)
    life.faults.next('ledger.open', ['well', 'refused'])
    const pass = await simulation.pass(life.reaper)
    expect(pass).toMatchObject({
      released: [{ name: 'a.1' }, { name: 'c.1' }],
      left: [{ name: 'b.1' }],
      errors: [expect.stringContaining('b.1')],
    })
    expect((await simulation.pass(life.reaper)).released).toMatchObject([{ name: 'b.1' }])
  })

  test('takes what its incarnation shared along when it is ended', async () => {
    stray('old.1')
    await simulation.pass(life.reaper)
    await pause(5_000)
    await simulation.pass(life.reaper)
    expect(simulation.world.tidied).toContain('lost-life')
  })
})

describe('reaper: breaker', () => {
  test('opens when at least ten things, and more than half of all, are unrecorded', async () => {
    for (let n = 1; n <= 10; n++) stray(`old.${n}`)
    await simulation.pass(life.reaper)
    await pause(10_000)
    expect(await simulation.pass(life.reaper)).toMatchObject({ breakerOpen: true, released: [] })
    expect(simulation.world.left()).toHaveLength(10)
    expect(life.logged.join()).toMatch(/touches none of them/)
  })

  test.each([
    ['nine of nine', 9, 0],
    ['ten of twenty', 10, 10],
  ])('stays closed for %s', async (_, orphans, held) => {
    const scope = life.engine.openScope({ id: 'agent', kind: 'agent' })
    if (held > 0)
      await run(
        life.engine.launch(
          scope,
          Array.from({ length: held }, (_, n) => thing(`t${n}`)),
        ),
      )
    for (let n = 1; n <= orphans; n++) stray(`old.${n}`)
    await simulation.pass(life.reaper)
    await pause(10_000)
    expect(await simulation.pass(life.reaper)).toMatchObject({ breakerOpen: false, released: { length: orphans } })
    expect(simulation.world.left()).toHaveLength(held)
  })
})

describe('reaper pass', () => {
  test('touches nothing of an open scope, or of one that is being launched', async () => {
    const scope = life.engine.openScope({ id: 'agent', kind: 'agent' })
    life.faults.next('ledger.hold', ['slow'], 100_000)
    life.engine.launch(scope, [thing('a')]).catch(() => {})
    for (let pass = 0; pass < 3; pass++) {
      await pause(10_000)
      expect((await simulation.pass(life.reaper)).found).toEqual([])
    }
    expect(simulation.world.left()).toEqual(['listed agent.1'])
  })

  test('runs once for two concurrent requests', async () => {
    const [first, second] = [life.reaper.pass({ dryRun: false }), life.reaper.pass({ dryRun: false })]
    expect(second).toBe(first)
    await run(first)
  })

  test('and a concurrent dry run are two passes, one after the other', async () => {
    const scope = life.engine.openScope({ id: 'agent', kind: 'agent' })
    await run(life.engine.launch(scope, [thing('a', { hears: 'kill', times: 2 })]))
    await run(life.engine.close('agent', { trigger: 'terminated', force: true, deadlineMs: 0 }))
    const [dry, real] = [life.reaper.pass({ dryRun: true }), life.reaper.pass({ dryRun: false })]
    expect(await run(dry)).toMatchObject({ released: [], left: { length: 1 } })
    expect(await run(real)).toMatchObject({ released: { length: 1 }, left: [] })
    expect(simulation.world.left()).toEqual([])
  })

  test('does not forget earlier sightings in a dry run', async () => {
    stray('old.1')
    await simulation.pass(life.reaper)
    simulation.world.things.clear()
    await simulation.pass(life.reaper, true)
    stray('old.1')
    await pause(10_000)
    expect((await simulation.pass(life.reaper)).released).toMatchObject([{ name: 'old.1' }])
  })

  test('counts no sighting in a dry run', async () => {
    stray('old.1')
    await simulation.pass(life.reaper, true)
    await pause(10_000)
    expect((await simulation.pass(life.reaper)).released).toEqual([])
    await pause(10_000)
    await simulation.pass(life.reaper, true)
    expect((await simulation.pass(life.reaper)).released).toMatchObject([{ name: 'old.1' }])
  })

  test('recovers a dead supervisor, but not in a dry run', async () => {
    const earlier = simulation.live()
    const scope = earlier.engine.openScope({ id: 'agent', kind: 'agent' })
    await run(earlier.engine.launch(scope, [thing('a', { kind: unlistedKind })]))
    earlier.die()
    expect(await simulation.pass(life.reaper, true)).toMatchObject({
      found: [{ why: 'dead-incarnation' }],
      released: [],
      left: { length: 1 },
    })
    expect(simulation.world.left()).toEqual(['unlisted agent.1'])
    expect(await simulation.pass(life.reaper)).toMatchObject({ released: [{ name: 'agent.1' }], left: [] })
    expect(simulation.world.left()).toEqual([])
  })

  test.each([
    [8, 1],
    [9, 2],
    [16, 2],
  ])('closes %i stuck agents in the time of %i', async (count, times) => {
    const agents = Array.from({ length: count }, (_, n) => `agent${n}`)
    for (const id of agents) {
      const scope = life.engine.openScope({ id, kind: 'agent' })
      await run(life.engine.launch(scope, [thing('a', { hears: 'kill', times: 1_000_000 })]))
      await run(life.engine.close(id, { trigger: 'terminated', force: true, deadlineMs: 0 }))
    }
    const startedMs = simulation.clock.now()
    expect(await simulation.pass(life.reaper)).toMatchObject({ found: { length: count }, left: { length: count } })
    expect(Math.round((simulation.clock.now() - startedMs) / 10_000)).toBe(times)
  })

  test('reports which listing failed', async () => {
    life.faults.next('list', ['refused', 'refused'])
    expect((await simulation.pass(life.reaper)).errors).toEqual([
      expect.stringMatching(/^(un)?listed: /),
      expect.stringMatching(/^(un)?listed: /),
    ])
    expect((await run(listAll(life.engine.parts, { installation: 'here' }, undefined))).failures).toEqual([])
  })
})

test('recovery observes and releases what a reaper had adopted when it died (G3)', async () => {
  stray('old.1')
  stray('old.2', 'lost-life', unlistedKind)
  await simulation.pass(life.reaper)
  await pause(5_000)
  life.faults.next('release', ['deaf'])
  life.reaper.pass({ dryRun: false }).catch(() => {})
  await pause(100)
  life.die()
  expect(await simulation.openBooks()).toContain('old.1 closing')
  const next = simulation.live()
  await run(next.engine.recover())
  expect(simulation.world.left()).toEqual(['unlisted old.2'])
  expect(await simulation.openBooks()).toEqual([])
})
