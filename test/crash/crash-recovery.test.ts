import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { missing } from '../support/real.ts'
import type { Crash, Moment, Role, Scenario } from './job.ts'
import { at, describeCrash, type Matrix, recover, run, untilOneFinishes } from './matrix.ts'
import { Place } from './place.ts'
import { buildDriver, type DriverEnd, type Program } from './program.ts'

/** The recovery is killed as well, the reaper too, and the sentinel does it without being asked. */

const moments: readonly Moment[] = ['before', 'during', 'after']
const cleanWithinMs = 5_000
/** The sentinel starts a process and opens a database, on a machine that may be busy. */
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

/** Where the supervisor was when it died: everything launched and nothing closed, or in the middle of a deletion. */
const deaths = {
  'running agent': { role: 'terminate', crash: { at: 1, when: 'before', effect: 'ledger.beginClose' } },
  'deletion under way': { role: 'delete', crash: { at: 1, when: 'after', effect: 'ledger.beginClose' } },
} satisfies Record<string, { role: Scenario; crash: Crash }>

async function diedAt(matrix: Matrix, { role, crash }: { role: Scenario; crash: Crash }): Promise<Place> {
  const place = new Place()
  const end = await run(matrix, { place, role, crash })
  expect(end.isKilled).toBe(true)
  return place
}

/** A dead supervisor's world, a helper that is killed at one effect, and the same helper again. */
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
  const matrix = (): Matrix => ({ program, containment })
  const isSampled = containment === 'subreaper'
  const it = test.skipIf(missing(containment))

  it.each(['running agent', 'deletion under way'] as const)('a recovery of a %s, killed at any effect, is recovered', { timeout }, async (name) => {
    let points = 0
    for (const when of name === 'running agent' ? moments : moments.slice(0, 1)) {
      const point = async (k: number): Promise<DriverEnd> =>
        await crashHelper(matrix(), await diedAt(matrix(), deaths[name]), 'recover', { at: k, when })
      points += await untilOneFinishes(point, 1, isSampled ? 4 : 1)
    }
    covered.push(`${containment}: recovery of a ${name} at ${points}`)
  })

  it('recoveries that are killed one after the other, each an effect later, end in a clean world', { timeout }, async () => {
    const place = await diedAt(matrix(), deaths['running agent'])
    let deathsInARow = 0
    for (let isOver = false; !isOver; deathsInARow += 1) {
      isOver = !(await run(matrix(), { place, role: 'recover', crash: { at: deathsInARow + 1, when: 'before' } })).isKilled
    }
    await place.becomesClean(cleanWithinMs)
    place.remove()
    covered.push(`${containment}: ${deathsInARow - 1} recoveries died in a row`)
  })

  it('a reaper that is killed while it ends what a lost database knew leaves nothing for ever', { timeout }, async () => {
    let points = 0
    for (const when of moments) {
      const point = async (k: number): Promise<DriverEnd> => {
        const place = await diedAt(matrix(), { role: 'logs-only', crash: { at: 1, when: 'before', effect: 'ledger.beginClose' } })
        for (const suffix of ['', '-wal', '-shm']) rmSync(join(place.home, `ebb.db${suffix}`), { force: true })
        return await crashHelper(matrix(), place, 'reap', { at: k, when })
      }
      points += await untilOneFinishes(point, 1, isSampled ? 4 : 1)
    }
    covered.push(`${containment}: reaper at ${points}`)
  })

  it.each(['terminate', 'rollback', 'complete', 'delete'] as const)('the sentinel alone cleans up after a "%s"', { timeout }, async (role) => {
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
