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

describe('server registration after a dead server', () => {
  const server = { role: 'server', address: 'http://127.0.0.1:1' } as const

  test('succeeds, also when the dead server is recovered during the registration', async () => {
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

  test('is refused to a process that has opened a scope as a command, because no second server would be refused then', async () => {
    const life = simulation.live()
    life.engine.openScope({ id: 'agent', kind: 'agent' })
    expect(() => life.engine.begin(server)).toThrow('registered as a command already')
  })

  test('is refused to the slower of two servers', async () => {
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

describe('recovery claim', () => {
  test('is given to one of two concurrent recoveries, so the work is done once', async () => {
    const dead = simulation.live()
    await agent(dead, [thing('a', { hears: 'kill' })])
    dead.die()
    const [one, other] = [simulation.live(), simulation.live()]
    const recoveries = await run(Promise.all([one.engine.recover(), other.engine.recover()]))
    expect(recoveries.map(({ reports }) => reports.length).toSorted()).toEqual([0, 1])
    expect(simulation.world.releases).toEqual(['agent.1'])
  })

  test('a claim of a living process is respected, however old it is', async () => {
    const dead = simulation.live()
    await agent(dead, [thing('a')])
    dead.die()
    await run(simulation.store.claim(dead.id, simulation.live().id, undefined))
    expect((await run(simulation.live().engine.recover())).reports).toEqual([])
    expect(simulation.world.left()).toEqual(['listed agent.1'])
  })

  test('a claim of a dead process is taken over', async () => {
    const dead = simulation.live()
    await agent(dead, [thing('a')])
    dead.die()
    const claimant = simulation.live()
    await run(simulation.store.claim(dead.id, claimant.id, undefined))
    claimant.die()
    expect((await run(simulation.live().engine.recover())).reports).toMatchObject([{ success: true }])
    expect(simulation.world.left()).toEqual([])
  })

  test('a claim of a process of unknown vitality is respected (G4)', async () => {
    const dead = simulation.live()
    await agent(dead, [thing('a')])
    dead.die()
    const claimant = simulation.live()
    await run(simulation.store.claim(dead.id, claimant.id, undefined))
    simulation.vitality.set(claimant.id, 'unknown')
    expect((await run(simulation.live().engine.recover())).reports).toEqual([])
  })

  test('a claim of a living process is waited for with waitMs, and what that process leaves is recovered', async () => {
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

  test.each(['before the incarnations are read', 'between the read and the claim'])(
    'that another process makes %s and gives back at once is noticed',
    async (when) => {
      const dead = simulation.live()
      await agent(dead, [thing('a')])
      dead.die()
      const [other, life] = [simulation.live(), simulation.live()]
      const { ledger } = life.engine.parts
      const unclaim = (): Promise<void> => simulation.store.unclaim(dead.id, other.id)
      if (when === 'before the incarnations are read') {
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

  test('a claim that a living process keeps is reported in `elsewhere`', async () => {
    const dead = simulation.live()
    await agent(dead, [thing('a')])
    dead.die()
    await run(simulation.store.claim(dead.id, simulation.live().id, undefined))
    expect(await run(simulation.live().engine.recover({ waitMs: 10_000 }))).toMatchObject({ reports: [], elsewhere: [dead.id], errors: [] })
  })

  test('a claim of a process of unknown vitality is not waited for', async () => {
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

  test('is not needed twice: two recoveries in one process are one', async () => {
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

describe('recovery with releasesClaims', () => {
  test('gives back the claim when it could not finish', async () => {
    const dead = simulation.live()
    await agent(dead, [thing('a', { hears: 'kill', times: 99 })])
    dead.die()
    const passing = simulation.live()
    expect(await run(passing.engine.recover({ releasesClaims: true }))).toMatchObject({ reports: [{ success: false }] })
    simulation.world.heal('agent.1')
    expect(await run(simulation.live().engine.recover())).toMatchObject({ reports: [{ success: true }], elsewhere: [] })
    expect([simulation.world.left(), await run(simulation.store.incarnations())]).toEqual([[], []])
  })

  test('is not joined by a recovery that keeps its claims, which runs after it and keeps them', async () => {
    const dead = simulation.live()
    await agent(dead, [thing('a', { hears: 'kill', times: 99 })])
    dead.die()
    const life = simulation.live()
    const { engine } = life
    const recoveries = Promise.all([engine.recover({ releasesClaims: true }), engine.recover(), engine.recover()])
    const [passing, keeping, joined] = await run(recoveries)
    expect([passing, keeping]).toMatchObject([{ reports: [{ success: false }] }, { reports: [{ success: false }] }])
    expect(joined).toBe(keeping)
    expect(await run(simulation.store.incarnations())).toMatchObject([{ id: dead.id, claimedBy: life.id }])
    expect(engine.owns('agent')).toBe(true)
    simulation.world.heal('agent.1')
    await pause(60_000)
    await simulation.pass(life.reaper)
  })

  test('gives back the claim when it could not read the ledger', async () => {
    const dead = simulation.live()
    await agent(dead, [thing('a')])
    dead.die()
    const passing = simulation.live()
    passing.faults.next('ledger.contents', ['refused'])
    expect((await run(passing.engine.recover({ releasesClaims: true }))).errors).toHaveLength(1)
    expect(await run(simulation.live().engine.recover())).toMatchObject({ reports: [{ success: true }], elsewhere: [] })
  })
})
