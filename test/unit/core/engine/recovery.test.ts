import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import type { Planned } from '../../../../src/core/ports/kind.ts'
import { type Life, Simulation, thing, unlistedKind } from '../../../support/simulation.ts'

let simulation: Simulation

beforeEach(async () => {
  simulation = await Simulation.open()
})

afterEach(async () => {
  await simulation[Symbol.asyncDispose]()
  expect(simulation.world.violations).toEqual([])
})

const run = <T>(work: Promise<T>): Promise<T> => simulation.clock.run(work)
const pause = (ms: number): Promise<void> => run(simulation.clock.pause(ms))

async function agent(life: Life, plan: readonly Planned[], id = 'agent'): Promise<void> {
  await run(life.engine.launch(life.engine.openScope({ id, kind: 'agent' }), plan))
}

describe('recovery', () => {
  test('kills at once, in order, and retires the dead incarnation', async () => {
    const dead = simulation.live()
    await agent(dead, [thing('a', { kind: unlistedKind }), thing('b', { dependsOn: ['a'], hears: 'kill' })])
    dead.die()
    const life = simulation.live()
    const { reports } = await run(life.engine.recover())
    expect(reports).toMatchObject([{ success: true, trigger: 'recovery', duration: 0 }])
    expect(simulation.world.left()).toEqual([])
    expect(await run(simulation.store.incarnations())).toEqual([])
    expect(simulation.world.tidied).toContain(dead.id)
  })

  test('finds a resource that was created but not yet recorded as held', async () => {
    const dead = simulation.live()
    dead.faults.next('ledger.hold', ['slow'], 1_000)
    dead.engine.launch(dead.engine.openScope({ id: 'agent', kind: 'agent' }), [thing('a', { kind: unlistedKind })]).catch(() => {})
    await pause(10)
    dead.die()
    expect(await simulation.openBooks()).toContain('agent.1 intended')
    await run(simulation.live().engine.recover())
    expect([simulation.world.left(), await simulation.openBooks()]).toEqual([[], []])
  })

  test('does not touch a living supervisor', async () => {
    const living = simulation.live()
    await agent(living, [thing('a')])
    expect(await run(simulation.live().engine.recover())).toEqual({ reports: [], unknown: [], elsewhere: [], errors: [] })
    expect(simulation.world.left()).toEqual(['listed agent.1'])
  })

  test('does not touch a supervisor of unknown vitality, and names it (G4)', async () => {
    const far = simulation.live()
    await agent(far, [thing('a')])
    simulation.vitality.set(far.id, 'unknown')
    expect(await run(simulation.live().engine.recover())).toEqual({ reports: [], unknown: [far.id], elsewhere: [], errors: [] })
    expect(simulation.world.left()).toEqual(['listed agent.1'])
  })

  test('keeps the incarnation when something cannot be released, and the next recovery continues', async () => {
    const dead = simulation.live()
    await agent(dead, [thing('a', { hears: 'kill', times: 99 }), thing('b')])
    dead.die()
    const life = simulation.live()
    expect(await run(life.engine.recover())).toMatchObject({ reports: [{ success: false }] })
    expect((await run(simulation.store.incarnations())).map(({ id }) => id)).toEqual([dead.id])
    simulation.world.heal('agent.1')
    expect(await run(life.engine.recover())).toMatchObject({ reports: [{ success: true }] })
    expect([simulation.world.left(), await simulation.openBooks(), await run(simulation.store.incarnations())]).toEqual([[], [], []])
  })

  test('continues with other incarnations when one fails', async () => {
    const [first, second] = [simulation.live(), simulation.live()]
    await agent(first, [thing('a')], 'one')
    await agent(second, [thing('b')], 'two')
    first.die()
    second.die()
    const life = simulation.live()
    life.faults.next('ledger.claim', ['refused'])
    const recovery = await run(life.engine.recover())
    expect(recovery).toMatchObject({ reports: [{ success: true }], errors: [expect.stringContaining(first.id)] })
    expect(simulation.world.left()).toEqual(['listed one.1'])
  })

  test('drops only the logs that an earlier close request drops', async () => {
    const dead = simulation.live()
    await agent(dead, [thing('a', { owes: ['archive'], hears: 'kill', times: 99 })], 'dropped')
    await agent(dead, [thing('b', { owes: ['archive'] })], 'kept')
    void dead.engine.close('dropped', { trigger: 'terminated', dropLogs: true })
    await pause(10)
    dead.die()
    simulation.world.heal('dropped.1')
    await run(simulation.live().engine.recover())
    expect([simulation.world.left(), [...simulation.world.archive]]).toEqual([[], ['archive of kept.1']])
  })

  test('releases an open resource of a scope that is recorded as closed', async () => {
    const dead = simulation.live()
    await agent(dead, [thing('a', { kind: unlistedKind })])
    await run(simulation.store.settle({ outcomes: [], closedScopeIds: ['agent'], forgottenScopeIds: [] }))
    dead.die()
    await run(simulation.live().engine.recover())
    expect([simulation.world.left(), await run(simulation.store.incarnations())]).toEqual([[], []])
  })
})

test('recovery does not disturb a running close of the reaper', async () => {
  const dead = simulation.live()
  await agent(dead, [thing('a', { kind: unlistedKind, hears: 'kill', times: 99 })])
  dead.die()
  const { engine, faults } = simulation.live()
  await run(engine.recover())
  simulation.world.heal('agent.1')
  faults.next('release', ['slow'], 2_000)
  const closed = engine.close('agent', { trigger: 'reaper', force: true })
  await pause(10)
  await run(engine.recover())
  expect(await run(closed)).toMatchObject({ success: true, resources: [{ outcome: 'released' }] })
  expect([simulation.world.left(), await simulation.openBooks(), await run(simulation.store.incarnations())]).toEqual([[], [], []])
})

describe('recovery continues the stored close request (G6)', () => {
  const log = thing('log', { hears: 'kill', owes: ['archive'] })

  test('deletion: nothing is archived, and the rows are deleted', async () => {
    const dead = simulation.live()
    await agent(dead, [log])
    dead.engine.close('agent', { trigger: 'deleted', graceMs: 60_000 }).catch(() => {})
    await pause(1_000)
    dead.die()
    expect(simulation.world.left()).toEqual(['listed agent.1'])
    await run(simulation.live().engine.recover())
    expect([simulation.world.left(), simulation.world.archive.size]).toEqual([[], 0])
    expect(await run(simulation.store.contents())).toEqual({ scopes: [], resources: [] })
  })

  test('termination: the log is archived', async () => {
    const dead = simulation.live()
    await agent(dead, [log])
    dead.faults.next('meet', ['deaf'])
    dead.engine.close('agent', { trigger: 'terminated', graceMs: 60_000 }).catch(() => {})
    await pause(1_000)
    dead.die()
    await run(simulation.live().engine.recover())
    expect([...simulation.world.archive]).toEqual(['archive of agent.1'])
  })

  test('force: an obligation that cannot be met is given up, and named', async () => {
    const dead = simulation.live()
    await agent(dead, [log])
    dead.faults.next('meet', ['deaf'])
    dead.engine.close('agent', { trigger: 'terminated', force: true }).catch(() => {})
    await pause(1_000)
    dead.die()
    const life = simulation.live()
    life.faults.next(
      'meet',
      Array.from({ length: 1_000 }, () => 'refused' as const),
    )
    const { reports } = await run(life.engine.recover())
    expect(reports[0]?.gaveUp).toEqual([expect.stringContaining('archive of agent.1')])
    expect(simulation.world.left()).toEqual([])
  })

  test('a scope without a close request keeps its log, whatever the request of its sibling is', async () => {
    const dead = simulation.live()
    await agent(dead, [log], 'kept')
    await agent(dead, [log], 'deleted')
    dead.engine.close('deleted', { trigger: 'deleted', graceMs: 60_000 }).catch(() => {})
    await pause(1_000)
    dead.die()
    await run(simulation.live().engine.recover())
    expect([...simulation.world.archive]).toEqual(['archive of kept.1'])
    expect(simulation.world.left()).toEqual([])
  })
})

describe('recovery of a supervisor whose agent another server adopted', () => {
  /** The first supervisor died with a kept agent. The second one adopted it. The first is still in the ledger. */
  async function inherited(): Promise<{ first: Life; second: Life }> {
    const first = simulation.live()
    await agent(first, [thing('a')], 'kept')
    await agent(first, [thing('b', { hears: 'kill', times: 99 })], 'stuck')
    first.die()
    const second = simulation.live()
    await run(second.engine.begin())
    await run(simulation.store.inherit([{ id: 'kept', parentId: `host-${second.id}` }], second.id))
    return { first, second }
  }

  test('does not end the adopted agent, although it carries the mark of the dead supervisor', async () => {
    const { first } = await inherited()
    simulation.world.heal('stuck.1')
    expect(await run(simulation.live().engine.recover())).toMatchObject({ reports: [{ success: true }], errors: [] })
    expect(simulation.world.left()).toEqual(['listed kept.1'])
    expect((await run(simulation.store.incarnations())).map(({ id }) => id)).not.toContain(first.id)
  })

  test('does not end the adopted agent when its owner cannot be read from the ledger', async () => {
    await inherited()
    simulation.world.heal('stuck.1')
    const life = simulation.live()
    const { ledger } = life.engine.parts
    const contents = ledger.contents.bind(ledger)
    vi.spyOn(ledger, 'contents').mockImplementation(async (incarnation, only) => {
      if (incarnation === undefined) throw new Error('the disk is gone')
      return await contents(incarnation, only)
    })
    const { reports } = await run(life.engine.recover())
    expect(reports[0]?.errors.join()).toContain('its owner cannot be read from the ledger: the disk is gone')
    expect(simulation.world.left()).toEqual(['listed kept.1'])
  })
})

describe('leave', () => {
  const keptThing = (nature: Parameters<typeof thing>[1] = {}): Planned => ({ ...thing('a', nature), onLoss: 'keep' })

  test('during the first recovery leaves agents that are not adopted yet to the next server', async () => {
    const dead = simulation.live()
    await agent(dead, [keptThing()])
    dead.die()
    const gate = Promise.withResolvers<void>()
    const adopter = async (): Promise<ReadonlySet<string>> => {
      await gate.promise
      return new Set()
    }
    const life = simulation.live({ adopter })
    await run(life.engine.begin())
    const recovering = life.engine.recover()
    await pause(10)
    const left = run(life.engine.leave({ trigger: 'process-exit' }))
    gate.resolve()
    await Promise.all([run(recovering), left])
    expect(simulation.world.left()).toEqual(['listed agent.1'])
    expect(await run(simulation.store.incarnations())).toMatchObject([{ id: dead.id, claimedBy: undefined }])
  })

  test('dismisses the sentinel only when no recovery is running', async () => {
    const dead = simulation.live()
    await agent(dead, [thing('a')])
    dead.die()
    const life = simulation.live()
    const dismiss = vi.spyOn(life.engine.parts.sentinel, 'dismiss')
    await run(life.engine.begin())
    life.faults.next('release', ['slow'], 5_000)
    const recovering = life.engine.recover()
    await pause(10)
    await run(life.engine.shutDown())
    expect(dismiss).not.toHaveBeenCalled()
    await run(recovering)
    const next = simulation.live()
    const dismissNext = vi.spyOn(next.engine.parts.sentinel, 'dismiss')
    await run(next.engine.begin())
    await run(next.engine.shutDown())
    expect(dismissNext).toHaveBeenCalledOnce()
  })

  test.each([
    ['does not finish in time', 99, 0],
    ['succeeds', 1, 1],
  ])('dismisses the sentinel only when the running close of a kept agent succeeds: it %s', async (_how, times, dismissals) => {
    const life = simulation.live()
    const dismiss = vi.spyOn(life.engine.parts.sentinel, 'dismiss')
    await agent(life, [keptThing({ hears: 'kill', times })])
    const left = life.engine.leave({ trigger: 'process-exit' })
    const closed = life.engine.close('agent', { trigger: 'completed', graceMs: 0 })
    await run(left)
    expect(dismiss).toHaveBeenCalledTimes(dismissals)
    await run(closed)
  })
})
