import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { type Life, reaperIntervalMs, Simulation, thing } from '../../../support/simulation.ts'

/** G8: an obligation is met before its resource is released, or holds it back. Force gives it up, and the report says so. */

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

describe('obligation', () => {
  test('is met before its resource is released', async () => {
    const report = await run(life.engine.close('agent', { trigger: 'completed', graceMs: 0 }))
    expect(report).toMatchObject({ success: true, gaveUp: [], resources: [{ outcome: 'released' }] })
    expect([...simulation.world.archive, ...simulation.world.lost]).toEqual(['archive of agent.1'])
  })

  test('that cannot be met holds its resource back, visibly and untouched', async () => {
    life.faults.next('meet', ['refused'])
    const report = await run(life.engine.close('agent', { trigger: 'completed', graceMs: 0 }))
    expect(report).toMatchObject({
      success: false,
      resources: [{ outcome: 'held-back', error: expect.stringContaining('archive of agent.1 failed') }],
    })
    expect([simulation.world.releases, simulation.world.left()]).toEqual([[], ['listed agent.1']])
    expect(await simulation.openBooks()).toEqual(['agent.1 closing', 'scope host-life1 open', 'scope agent closing'])
  })

  test('that never finishes holds its resource back at the deadline', async () => {
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

  test('is given up after the gentle steps with givesUp, as at an exit', async () => {
    life.faults.next('meet', refusals(1_000))
    const report = await run(life.engine.close('agent', { trigger: 'process-exit', givesUp: true, deadlineMs: 4_000 }))
    expect(report).toMatchObject({
      success: true,
      resources: [{ outcome: 'given-up', steps: [{ step: 'terminate' }, { step: 'kill' }] }],
      gaveUp: [expect.stringContaining('archive of agent.1')],
    })
  })

  test('is retried in a forced close, and met after seven of its ten seconds', async () => {
    life.faults.next('meet', refusals(20))
    const report = await run(life.engine.close('agent', { trigger: 'terminated', force: true }))
    expect(report).toMatchObject({ success: true, gaveUp: [], resources: [{ outcome: 'released' }] })
    expect(report.duration).toBeGreaterThan(7_000)
    expect([...simulation.world.archive, ...simulation.world.lost]).toEqual(['archive of agent.1'])
  })

  test('that never finishes leaves two seconds of a forced close for kill and observations', async () => {
    life.faults.next('meet', ['deaf'])
    const report = await run(life.engine.close('agent', { trigger: 'terminated', force: true }))
    expect(report).toMatchObject({ success: true, duration: 8_000, gaveUp: [expect.stringContaining('archive of agent.1')] })
  })

  test.each(['mute', 'deaf'] as const)('that is %s leaves half of a short forced close for the kill', async (fate) => {
    life.faults.next('meet', [fate])
    const report = await run(life.engine.close('agent', { trigger: 'terminated', force: true, deadlineMs: 4_000 }))
    expect(report).toMatchObject({ success: true, duration: 2_000 })
  })

  test('that hangs is given up when a forced close joins', async () => {
    life.faults.next('meet', ['deaf', ...refusals(1_000)])
    const closed = life.engine.close('agent', { trigger: 'terminated', graceMs: 0, deadlineMs: 600_000 })
    await run(simulation.clock.pause(1_000))
    life.engine.close('agent', { trigger: 'terminated', force: true, deadlineMs: 2_000 })
    expect(await run(closed)).toMatchObject({ success: true, duration: 2_000, gaveUp: [expect.stringContaining('archive')] })
  })

  test('that hangs is not waited for when a deletion joins, because a deletion keeps nothing', async () => {
    life.faults.next('meet', ['deaf'])
    const closed = life.engine.close('agent', { trigger: 'terminated', graceMs: 0, deadlineMs: 600_000 })
    await run(simulation.clock.pause(1_000))
    life.engine.close('agent', { trigger: 'deleted', graceMs: 0 })
    expect(await run(closed)).toMatchObject({ success: true, duration: 1_000, gaveUp: [], resources: [{ outcome: 'released' }] })
    expect([simulation.world.left(), simulation.world.archive.size]).toEqual([[], 0])
  })

  test('that was given up is named once the end of its resource is observed, even by a later close', async () => {
    life.faults.next('meet', refusals(1_000))
    life.faults.next('observe', ['well', ...refusals(1_000)])
    const first = await run(life.engine.close('agent', { trigger: 'terminated', force: true }))
    expect([first.success, simulation.world.left()]).toEqual([false, []])
    life.faults.next('observe', [])
    const second = await run(life.engine.close('agent', { trigger: 'reaper' }))
    expect(second).toMatchObject({ success: true, gaveUp: [expect.stringContaining('archive of agent.1')] })
  })

  test('is not owed when the agent is deleted', async () => {
    const report = await run(life.engine.close('agent', { trigger: 'deleted', graceMs: 0 }))
    expect(report).toMatchObject({ success: true, gaveUp: [], resources: [{ outcome: 'released' }] })
    expect(simulation.world.archive.size).toBe(0)
  })

  test('deletion: the log stays until the ledger has the request, so that after an earlier crash it is archived (G8, G9)', async () => {
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

  test('deletion: the log is held back when the ledger refuses the request, and is removed by the next try', async () => {
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

  test('deletion that joins a stop: the log stays until the ledger has the request', async () => {
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
