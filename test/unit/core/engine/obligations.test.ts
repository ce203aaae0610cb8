import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { type Life, reaperIntervalMs, Simulation, thing } from '../../../support/simulation.ts'

/** G8: what is owed is done before its source goes, or holds it back; force gives it up, and says so. */

let simulation: Simulation
let life: Life

beforeEach(async () => {
  simulation = await Simulation.open()
  life = simulation.live()
  const scope = life.engine.openScope({ id: 'agent', kind: 'agent' })
  await simulation.clock.run(life.engine.launch(scope, [thing('log', { hears: 'kill', owes: ['archive'] })]))
})

afterEach(async () => {
  await simulation[Symbol.asyncDispose]()
  expect(simulation.world.violations).toEqual([])
})

const run = <T>(work: Promise<T>): Promise<T> => simulation.clock.run(work)
const refusals = (count: number): 'refused'[] => Array.from({ length: count }, () => 'refused')

describe('an obligation', () => {
  test('is met before its source is ended', async () => {
    const report = await run(life.engine.close('agent', { trigger: 'completed', graceMs: 0 }))
    expect(report).toMatchObject({ success: true, gaveUp: [], resources: [{ outcome: 'released' }] })
    expect([...simulation.world.archive, ...simulation.world.lost]).toEqual(['archive of agent.1'])
  })

  test('that cannot be met holds its source back, visibly, and nothing is done to it', async () => {
    life.faults.next('meet', ['refused'])
    const report = await run(life.engine.close('agent', { trigger: 'completed', graceMs: 0 }))
    expect(report).toMatchObject({
      success: false,
      resources: [{ outcome: 'held-back', error: expect.stringContaining('archive of agent.1 failed') }],
    })
    expect([simulation.world.releases, simulation.world.left()]).toEqual([[], ['listed agent.1']])
    expect(await simulation.openBooks()).toEqual(['agent.1 closing', 'scope host-life1 open', 'scope agent closing'])
  })

  test('that never comes back holds its source back at the deadline', async () => {
    life.faults.next('meet', ['deaf'])
    const report = await run(life.engine.close('agent', { trigger: 'completed', graceMs: 0, deadlineMs: 3_000 }))
    expect(report).toMatchObject({ success: false, duration: 3_000, resources: [{ outcome: 'held-back' }] })
    expect(simulation.world.left()).toEqual(['listed agent.1'])
  })

  test('is tried again by the reaper, with growing intervals, until it is met', async () => {
    life.faults.next('meet', refusals(3))
    await run(life.engine.close('agent', { trigger: 'completed', graceMs: 0 }))
    const triedAt: number[] = []
    for (let minute = 0; minute < 20; minute++) {
      const pass = await simulation.pass(life.reaper)
      if (life.reports.length > triedAt.length + 1) triedAt.push(minute)
      if (pass.released.length > 0) break
      expect(pass.left).toMatchObject([{ why: 'held-back', name: 'agent.1' }])
      await run(simulation.clock.pause(reaperIntervalMs))
    }
    expect(triedAt).toEqual([0, 2, 6])
    expect([simulation.world.left(), ...simulation.world.archive]).toEqual([[], 'archive of agent.1'])
  })

  test('is given up by force, and the report names it', async () => {
    life.faults.next('meet', refusals(1_000))
    const report = await run(life.engine.close('agent', { trigger: 'terminated', force: true }))
    expect(report).toMatchObject({
      success: true,
      resources: [{ outcome: 'given-up' }],
      gaveUp: [expect.stringContaining('archive of agent.1')],
    })
    expect([...simulation.world.lost]).toEqual(['agent.1'])
  })

  test('is given up after the gentle steps where the wish says so, as at an exit', async () => {
    life.faults.next('meet', refusals(1_000))
    const report = await run(life.engine.close('agent', { trigger: 'process-exit', givesUp: true, deadlineMs: 4_000 }))
    expect(report).toMatchObject({
      success: true,
      resources: [{ outcome: 'given-up', steps: [{ step: 'terminate' }, { step: 'kill' }] }],
      gaveUp: [expect.stringContaining('archive of agent.1')],
    })
  })

  test('that can be met after seven of the ten seconds of a forced close is met', async () => {
    life.faults.next('meet', refusals(20))
    const report = await run(life.engine.close('agent', { trigger: 'terminated', force: true }))
    expect(report).toMatchObject({ success: true, gaveUp: [], resources: [{ outcome: 'released' }] })
    expect(report.duration).toBeGreaterThan(7_000)
    expect([...simulation.world.archive, ...simulation.world.lost]).toEqual(['archive of agent.1'])
  })

  test('that is deaf until the end of a forced close leaves two of its seconds for the kill and the looks', async () => {
    life.faults.next('meet', ['deaf'])
    const report = await run(life.engine.close('agent', { trigger: 'terminated', force: true }))
    expect(report).toMatchObject({ success: true, duration: 8_000, gaveUp: [expect.stringContaining('archive of agent.1')] })
  })

  test.each(['mute', 'deaf'] as const)('that is %s leaves a forced close time for the kill', async (fate) => {
    life.faults.next('meet', [fate])
    const report = await run(life.engine.close('agent', { trigger: 'terminated', force: true, deadlineMs: 4_000 }))
    expect(report).toMatchObject({ success: true, duration: 2_000 })
  })

  test('that hangs is left alone when force joins', async () => {
    life.faults.next('meet', ['deaf', ...refusals(1_000)])
    const closed = life.engine.close('agent', { trigger: 'terminated', graceMs: 0, deadlineMs: 600_000 })
    await run(simulation.clock.pause(1_000))
    life.engine.close('agent', { trigger: 'terminated', force: true, deadlineMs: 2_000 })
    expect(await run(closed)).toMatchObject({ success: true, duration: 2_000, gaveUp: [expect.stringContaining('archive')] })
  })

  test('that hangs is not waited for when a deletion joins, which wants nothing kept', async () => {
    life.faults.next('meet', ['deaf'])
    const closed = life.engine.close('agent', { trigger: 'terminated', graceMs: 0, deadlineMs: 600_000 })
    await run(simulation.clock.pause(1_000))
    life.engine.close('agent', { trigger: 'deleted', graceMs: 0 })
    expect(await run(closed)).toMatchObject({ success: true, duration: 1_000, gaveUp: [], resources: [{ outcome: 'released' }] })
    expect([simulation.world.left(), simulation.world.archive.size]).toEqual([[], 0])
  })

  test('that was given up when nobody could see the end is named when the end is seen', async () => {
    life.faults.next('meet', refusals(1_000))
    life.faults.next('observe', ['well', ...refusals(1_000)])
    const first = await run(life.engine.close('agent', { trigger: 'terminated', force: true }))
    expect([first.success, simulation.world.left()]).toEqual([false, []])
    life.faults.next('observe', [])
    const second = await run(life.engine.close('agent', { trigger: 'reaper' }))
    expect(second).toMatchObject({ success: true, gaveUp: [expect.stringContaining('archive of agent.1')] })
  })

  test('is not asked for when the agent is deleted', async () => {
    const report = await run(life.engine.close('agent', { trigger: 'deleted', graceMs: 0 }))
    expect(report).toMatchObject({ success: true, gaveUp: [], resources: [{ outcome: 'released' }] })
    expect(simulation.world.archive.size).toBe(0)
  })

  test('what a deletion drops stays until the ledger has the request: a supervisor killed before leaves it to be archived (G8, G9)', async () => {
    life.faults.next('ledger.beginClose', ['slow'], 3_000)
    life.engine.close('agent', { trigger: 'deleted', graceMs: 0 }).catch(() => {})
    await run(simulation.clock.pause(2_500))
    expect([simulation.world.left(), ...simulation.world.lost]).toEqual([['listed agent.1']])
    life.die()
    const next = simulation.live()
    await run(next.engine.recover())
    expect([simulation.world.left(), ...simulation.world.archive]).toEqual([[], 'archive of agent.1'])
    expect([...simulation.world.lost]).toEqual([])
  })

  test('what a deletion drops is held back when the ledger refuses the request, and goes with the next try', async () => {
    life.faults.next('ledger.beginClose', ['refused'])
    const report = await run(life.engine.close('agent', { trigger: 'deleted' }))
    expect(report).toMatchObject({
      success: false,
      resources: [{ outcome: 'held-back', error: expect.stringContaining('the ledger has not recorded the request to drop it') }],
    })
    expect(simulation.world.releases).toEqual([])
    expect(await run(life.engine.close('agent', { trigger: 'deleted' }))).toMatchObject({ success: true, gaveUp: [] })
    expect([simulation.world.left(), ...simulation.world.lost]).toEqual([[]])
  })

  test('a deletion that joins a stop drops nothing before the ledger has it', async () => {
    life.faults.next('meet', ['deaf'])
    const stop = life.engine.close('agent', { trigger: 'terminated', graceMs: 0 })
    await run(simulation.clock.pause(100))
    life.faults.next('ledger.beginClose', ['slow'], 3_000)
    life.engine.close('agent', { trigger: 'deleted', graceMs: 0 }).catch(() => {})
    await run(simulation.clock.pause(2_500))
    expect(simulation.world.left()).toEqual(['listed agent.1'])
    expect(await run(stop)).toMatchObject({ success: true })
    expect([simulation.world.left(), ...simulation.world.lost]).toEqual([[]])
  })
})
