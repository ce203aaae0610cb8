import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { removeHomes, temporaryHome } from '../support/home.ts'
import type { Moment, Scenario } from './job.ts'
import { at, describeCrash, type Matrix, recover, run, untilOneFinishes } from './matrix.ts'
import { Place } from './place.ts'
import { buildDriver, type DriverEnd, type Program } from './program.ts'

const scenarios: readonly Scenario[] = ['terminate', 'rollback', 'complete', 'delete']
const containments = ['cgroup', 'scan']
const moments: readonly Moment[] = ['before', 'during', 'after']
const cleanWithinMs = 5_000

let program: Program
let folder: string

beforeAll(async () => {
  folder = temporaryHome()
  program = await buildDriver(folder)
})

afterAll(() => removeHomes([folder]))

/** One supervisor killed at one effect, one recovery, one look at the world. */
async function crashAndRecover(matrix: Matrix, role: Scenario, k: number, when: Moment): Promise<DriverEnd> {
  const place = new Place()
  const crash = { at: k, when }
  const end = await run(matrix, { place, role, crash })
  await at(describeCrash(crash, end), async () => {
    const isDeleted = role === 'delete' && place.isDeletionRecorded()
    if (end.isKilled) {
      place.takeFreedPlaces()
      expect(await recover(place)).toEqual([])
    }
    await place.becomesClean(cleanWithinMs)
    if (isDeleted) expect([place.agentRows(), place.archivedOutput()]).toEqual([0, undefined])
    else if (end.isReady && role === 'terminate') expect(place.archivedOutput()).toMatch(/line/)
  })
  place.remove()
  return end
}

describe.each(containments)('under %s', (containment) => {
  const matrix = (): Matrix => ({ program, containment })

  test.each(scenarios)('G9: a %s that is killed at any effect is recovered to a clean world', { timeout: 300_000 }, async (scenario) => {
    let points = 0
    for (const when of moments) points += await untilOneFinishes((k) => crashAndRecover(matrix(), scenario, k, when))
    console.log(`${containment}: ${scenario} was killed at ${points} points`)
  })
})
