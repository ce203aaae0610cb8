import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { amongNeighbours } from '../support/decoys.ts'
import { needs } from '../support/real.ts'
import type { Crash, Moment, Role, Scenario } from './job.ts'
import { at, describeCrash, type Matrix, recover, run, untilOneFinishes } from './matrix.ts'
import { Place } from './place.ts'
import { buildDriver, type DriverEnd, type Program } from './program.ts'

/** G9 for recoveries: the recovery and the reaper are killed too, and the sentinel alone recovers. */

const scenarios: readonly Scenario[] = ['terminate', 'rollback', 'complete', 'delete']
const moments: readonly Moment[] = ['before', 'during']
const cleanWithinMs = 5_000
/** The time in which the sentinel must clean up. It starts a process and opens a database, on a machine that may be busy. */
const sentinelWithinMs = 15_000
const timeout = 300_000

let program: Program
const covered: string[] = []

beforeAll(async () => {
  program = await buildDriver()
})

afterAll(() => {
  program[Symbol.dispose]()
  console.log(`Crash points of recoveries:\n  ${covered.join('\n  ')}`)
})

interface Death {
  readonly role: Scenario
  readonly crash: Crash
  readonly losesDatabase?: boolean
}

/** The moment at which the supervisor dies: everything is launched and nothing is closed, or a deletion has begun. */
const launched: Crash = { at: 1, when: 'before', effect: 'ledger.beginClose' }
const deaths = {
  running: { role: 'terminate', crash: launched },
  deleting: { role: 'delete', crash: { at: 1, when: 'after', effect: 'ledger.beginClose' } },
  unrecorded: { role: 'logs-only', crash: launched, losesDatabase: true },
} satisfies Record<string, Death>

async function diedAt(matrix: Matrix, { role, crash, losesDatabase = false }: Death): Promise<Place> {
  const place = new Place()
  const end = await run(matrix, { place, role, crash })
  expect(end.isKilled).toBe(true)
  if (losesDatabase) for (const suffix of ['', '-wal', '-shm']) rmSync(join(place.home, `ebb.db${suffix}`), { force: true })
  return place
}

/** Starts from the state that a dead supervisor left, kills a helper at one effect, and runs the helper again. */
async function crashHelper(matrix: Matrix, place: Place, role: Role, crash: Crash): Promise<DriverEnd> {
  const end = await run(matrix, { place, role, crash })
  await at(describeCrash(crash, end), async () => {
    if (end.isKilled) {
      place.takeFreedPlaces()
      expect(await recover(place)).toEqual([])
      if (role === 'reap') expect((await run(matrix, { place, role })).done?.left).toEqual([])
    } else expect(end.done?.left).toEqual([])
    await place.becomesClean(cleanWithinMs)
  })
  place.remove()
  return end
}

describe.each(['cgroup', 'scan', 'subreaper'] as const)('G9 under %s', (containment) => {
  needs(containment)
  const matrix = (): Matrix => ({ program, containment })
  // Each process tree under the containment subreaper has a subreaper process with its own Node, which is slow, so fewer crash points are
  // tried.
  const isSampled = containment === 'subreaper'

  async function crashEverywhere(role: Role, death: Death, when: Moment, stride: number): Promise<number> {
    return await untilOneFinishes(
      async (k) => await crashHelper(matrix(), await diedAt(matrix(), death), role, { at: k, when }),
      containment === 'scan' ? stride : 1,
      isSampled ? 4 : stride,
    )
  }

  test('a recovery of a running agent that is killed at any effect is recovered', { timeout }, async () => {
    let points = 0
    await amongNeighbours(async () => {
      for (const when of moments) points += await crashEverywhere('recover', deaths.running, when, 1)
    })
    covered.push(`${containment}: recovery of a running agent at ${points}`)
  })

  test('a recovery of a running deletion that is killed before any effect is recovered', { timeout }, async () => {
    const points = await crashEverywhere('recover', deaths.deleting, 'before', 1)
    covered.push(`${containment}: recovery of a deletion under way at ${points}`)
  })

  test('recoveries killed in a row, each one effect later, end in a clean system', { timeout }, async () => {
    const place = await diedAt(matrix(), deaths.running)
    let inARow = 0
    while ((await run(matrix(), { place, role: 'recover', crash: { at: inARow + 1, when: 'before' } })).isKilled) inARow += 1
    await place.becomesClean(cleanWithinMs)
    place.remove()
    covered.push(`${containment}: ${inARow} recoveries died in a row`)
  })

  test('a reaper killed at any effect after the database was lost leaves nothing in the end', { timeout }, async () => {
    let points = 0
    await amongNeighbours(async () => {
      // The reaper starts with the polite step, so each point takes seconds. One point in six is tried, with another offset per
      // containment.
      points = await crashEverywhere('reap', deaths.unrecorded, 'before', 6)
    })
    covered.push(`${containment}: reaper at ${points}`)
  })

  test.each(scenarios)('the sentinel alone cleans up after a "%s"', { timeout }, async (role) => {
    const point = async (k: number): Promise<DriverEnd> => {
      const place = new Place()
      const crash = { at: k, when: 'before' } as const
      const end = await run(matrix(), { place, role, watched: true, crash })
      await at(describeCrash(crash, end), async () => await place.becomesClean(sentinelWithinMs))
      place.remove()
      return end
    }
    const points = await untilOneFinishes(point, 2, isSampled ? 17 : 7)
    covered.push(`${containment}: sentinel after a ${role} at ${points}`)
  })
})
