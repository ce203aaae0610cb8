import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import type { Planned } from '../../../../src/core/ports/kind.ts'
import { type Life, Simulation, thing } from '../../../support/simulation.ts'

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

describe('the seat of a dead server', () => {
  const server = { role: 'server', address: 'http://127.0.0.1:1' } as const

  test('is free for the next one, also when the dead one is recovered between the question and the answer', async () => {
    const dead = simulation.live()
    await run(dead.engine.begin(server))
    dead.die()
    const life = simulation.live()
    vi.spyOn(life.engine.parts.ledger, 'unseatServer').mockImplementationOnce(async (id) => {
      await simulation.store.retire(id)
      return false
    })
    await run(life.engine.begin(server))
    expect(await run(simulation.store.incarnations())).toMatchObject([{ id: life.id, role: 'server' }])
  })

  test('is refused to the slower of two', async () => {
    const dead = simulation.live()
    await run(dead.engine.begin(server))
    dead.die()
    const [first, second] = [simulation.live(), simulation.live()]
    vi.spyOn(second.engine.parts.ledger, 'unseatServer').mockImplementationOnce(async () => {
      await first.engine.begin(server)
      return false
    })
    await expect(run(second.engine.begin(server))).rejects.toMatchObject({ code: 'server_running', details: { id: first.id } })
  })
})

describe('the claim', () => {
  test('is one recovery’s only: two that come at once do the work once', async () => {
    const dead = simulation.live()
    await agent(dead, [thing('a', { hears: 'kill' })])
    dead.die()
    const [one, other] = [simulation.live(), simulation.live()]
    const recoveries = await run(Promise.all([one.engine.recover(), other.engine.recover()]))
    expect(recoveries.map(({ reports }) => reports.length).toSorted()).toEqual([0, 1])
    expect(simulation.world.releases).toEqual(['agent.1'])
  })

  test('of somebody who lives counts, however long it takes', async () => {
    const dead = simulation.live()
    await agent(dead, [thing('a')])
    dead.die()
    await run(simulation.store.claim(dead.id, simulation.live().id, undefined))
    expect((await run(simulation.live().engine.recover())).reports).toEqual([])
    expect(simulation.world.left()).toEqual(['listed agent.1'])
  })

  test('of somebody who died is taken over', async () => {
    const dead = simulation.live()
    await agent(dead, [thing('a')])
    dead.die()
    const claimant = simulation.live()
    await run(simulation.store.claim(dead.id, claimant.id, undefined))
    claimant.die()
    expect((await run(simulation.live().engine.recover())).reports).toMatchObject([{ success: true }])
    expect(simulation.world.left()).toEqual([])
  })

  test('of somebody who cannot be told to be dead counts (G4)', async () => {
    const dead = simulation.live()
    await agent(dead, [thing('a')])
    dead.die()
    const claimant = simulation.live()
    await run(simulation.store.claim(dead.id, claimant.id, undefined))
    simulation.vitality.set(claimant.id, 'unknown')
    expect((await run(simulation.live().engine.recover())).reports).toEqual([])
  })

  test('of somebody who lives is waited for, and what that one left is taken', async () => {
    const dead = simulation.live()
    await agent(dead, [thing('a')])
    dead.die()
    const other = simulation.live()
    await run(simulation.store.claim(dead.id, other.id, undefined))
    const life = simulation.live()
    const patient = life.engine.recover({ waitMs: 10_000 })
    await pause(1_000)
    expect(simulation.world.left()).toEqual(['listed agent.1'])
    await run(simulation.store.unclaim(dead.id, other.id))
    expect(await run(patient)).toMatchObject({ reports: [{ success: true }], elsewhere: [] })
    expect([simulation.world.left(), await run(simulation.store.incarnations())]).toEqual([[], []])
  })

  test.each(['before we look', 'between our look and our claim'])(
    'that was made %s and is given back at once is not missed',
    async (when) => {
      const dead = simulation.live()
      await agent(dead, [thing('a')])
      dead.die()
      const [other, life] = [simulation.live(), simulation.live()]
      const { ledger } = life.engine.parts
      const unclaim = (): Promise<void> => simulation.store.unclaim(dead.id, other.id)
      if (when === 'before we look') {
        await run(simulation.store.claim(dead.id, other.id, undefined))
        const look = ledger.incarnations.bind(ledger)
        vi.spyOn(ledger, 'incarnations').mockImplementationOnce(async () => {
          const seen = await look()
          await unclaim()
          return seen
        })
      } else
        vi.spyOn(ledger, 'claim').mockImplementationOnce(async () => {
          await unclaim()
          return false
        })
      expect(await run(life.engine.recover({ waitMs: 10_000 }))).toMatchObject({ reports: [{ success: true }], elsewhere: [] })
      expect(simulation.world.left()).toEqual([])
    },
  )

  test('of somebody who lives and does not let go is told', async () => {
    const dead = simulation.live()
    await agent(dead, [thing('a')])
    dead.die()
    await run(simulation.store.claim(dead.id, simulation.live().id, undefined))
    expect(await run(simulation.live().engine.recover({ waitMs: 10_000 }))).toMatchObject({ reports: [], elsewhere: [dead.id], errors: [] })
  })

  test('of somebody who may be dead is not waited for', async () => {
    const dead = simulation.live()
    await agent(dead, [thing('a')])
    dead.die()
    const claimant = simulation.live()
    await run(simulation.store.claim(dead.id, claimant.id, undefined))
    simulation.vitality.set(claimant.id, 'unknown')
    const beganMs = simulation.clock.now()
    expect(await run(simulation.live().engine.recover({ waitMs: 10_000 }))).toMatchObject({ reports: [], elsewhere: [] })
    expect(simulation.clock.now() - beganMs).toBeLessThan(1_000)
  })

  test('two recoveries in one process are one', async () => {
    const dead = simulation.live()
    await agent(dead, [thing('a', { hears: 'kill', times: 3 })])
    dead.die()
    const { engine, reaper } = simulation.live()
    const [first, second] = [engine.recover(), engine.recover()]
    expect(second).toBe(first)
    await run(Promise.all([first, reaper.pass({ dryRun: false })]))
    expect(simulation.world.releases).toHaveLength(3)
  })
})

describe('who has no reaper to try again with', () => {
  test('gives back what it could not finish, so that others need not wait for its end', async () => {
    const dead = simulation.live()
    await agent(dead, [thing('a', { hears: 'kill', times: 99 })])
    dead.die()
    const passing = simulation.live()
    expect(await run(passing.engine.recover({ releasesClaims: true }))).toMatchObject({ reports: [{ success: false }] })
    simulation.world.heal('agent.1')
    expect(await run(simulation.live().engine.recover())).toMatchObject({ reports: [{ success: true }], elsewhere: [] })
    expect([simulation.world.left(), await run(simulation.store.incarnations())]).toEqual([[], []])
  })

  test('also when it could not even read what there is to do', async () => {
    const dead = simulation.live()
    await agent(dead, [thing('a')])
    dead.die()
    const passing = simulation.live()
    passing.faults.next('ledger.contents', ['refused'])
    expect((await run(passing.engine.recover({ releasesClaims: true }))).errors).toHaveLength(1)
    expect(await run(simulation.live().engine.recover())).toMatchObject({ reports: [{ success: true }], elsewhere: [] })
  })
})
