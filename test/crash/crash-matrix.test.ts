import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { amongNeighbours } from '../support/decoys.ts'
import { needs } from '../support/real.ts'
import type { Moment, Scenario } from './job.ts'
import { at, describeCrash, type Matrix, recover, run, untilOneFinishes } from './matrix.ts'
import { Place } from './place.ts'
import { buildDriver, type DriverEnd, type Program } from './program.ts'

/**
 * The crash points are generated: the k-th effect for k = 1, 2, 3 …, until a run ends without a crash. The matrix has no list of effects,
 * so a new effect is covered from the start.
 */

const scenarios: readonly Scenario[] = ['terminate', 'rollback', 'complete', 'delete']
/** The state after an effect without a delay is the state before the next effect, so `after` is not tried in every scenario. */
const moments: Record<Scenario, readonly Moment[]> = {
  terminate: ['before', 'during', 'after'],
  rollback: ['before', 'during'],
  complete: ['before', 'during', 'after'],
  delete: ['before', 'during'],
  remove: ['before', 'during', 'after'],
  probe: ['before', 'during', 'after'],
  'logs-only': [],
  deploy: ['before', 'during'],
  // The scenario `ecs` is tested in crash-ecs.test.ts, with its own simulated account.
  ecs: [],
}
const cleanWithinMs = 5_000
const timeout = 300_000

let program: Program
const covered: string[] = []

beforeAll(async () => {
  program = await buildDriver()
})

afterAll(() => {
  program[Symbol.dispose]()
  console.log(`Crash points of launches and closes:\n  ${covered.join('\n  ')}`)
})

/** Kills one supervisor at one effect, runs one recovery, and checks the system once. */
async function crashAndRecover(matrix: Matrix, role: Scenario, k: number, when: Moment): Promise<DriverEnd> {
  const place = new Place()
  const crash = { at: k, when }
  const end = await run(matrix, { place, role, crash })
  await at(describeCrash(crash, end), async () => {
    const deletes = role === 'delete' || role === 'remove'
    const isDeleted = deletes && (place.isDeletionRecorded() || place.agentRows() === 0)
    if (end.isKilled) {
      place.takeFreedPlaces()
      expect(await recover(place)).toEqual([])
    }
    await place.becomesClean(cleanWithinMs)
    if (isDeleted) expect([place.agentRows(), place.archivedOutput()]).toEqual([0, undefined])
    else if (end.isReady && (role === 'terminate' || deletes)) expect(place.archivedOutput()).toMatch(/line/)
  })
  place.remove()
  return end
}

/**
 * The number of effects of a launch. Launches are the same for `delete` and `terminate`, so the crash points of a launch are tried once.
 */
async function launchOf(matrix: Matrix, role: 'delete' | 'remove'): Promise<Readonly<Record<Moment, number>>> {
  const place = new Place()
  const { effectsToReady } = await run(matrix, { place, role })
  await place.becomesClean(cleanWithinMs)
  place.remove()
  if (!effectsToReady) throw new Error('The launch did not come to its end.')
  return effectsToReady
}

describe.each(['cgroup', 'scan', 'subreaper'] as const)('G9 under %s', (containment) => {
  needs(containment)
  const matrix = (): Matrix => ({ program, containment })
  // Each process tree under the containment subreaper has a subreaper process with its own Node, which is slow. There, one crash point in
  // three is tried.
  const stride = containment === 'subreaper' ? 3 : 1

  test.each(scenarios)('a supervisor killed at any effect of "%s" is recovered', { timeout }, async (role) => {
    let points = 0
    const launched = role === 'delete' ? await launchOf(matrix(), role) : undefined
    await amongNeighbours(async () => {
      for (const [index, when] of moments[role].entries()) {
        const first = launched?.[when] ?? 1
        points += await untilOneFinishes((k) => crashAndRecover(matrix(), role, k, when), first + (index % stride), stride)
      }
    })
    covered.push(`${containment}: ${role} at ${points}`)
  })
})

describe('G9: removal of an ended agent', () => {
  needs('cgroup')

  test('a supervisor killed at any effect keeps row and archive, or the recovery removes both', {
    timeout,
  }, async () => {
    let points = 0
    const matrix: Matrix = { program, containment: 'cgroup' }
    const launched = await launchOf(matrix, 'remove')
    await amongNeighbours(async () => {
      for (const when of moments.remove)
        points += await untilOneFinishes((k) => crashAndRecover(matrix, 'remove', k, when), launched[when] + 1)
    })
    covered.push(`removal of an ended agent at ${points}`)
  })
})

describe.each(['cgroup', 'scan'] as const)('G9: a version query under %s', (containment) => {
  needs(containment)

  test('a supervisor killed at any effect of the query leaves nothing of the program', { timeout }, async () => {
    let points = 0
    const matrix: Matrix = { program, containment }
    await amongNeighbours(async () => {
      for (const when of moments.probe) points += await untilOneFinishes((k) => crashAndRecover(matrix, 'probe', k, when))
    })
    covered.push(`${containment}: version query at ${points}`)
  })
})

describe('G9: an agent deployed into tmux', () => {
  needs('tmux', 'cgroup')

  test('a supervisor killed at any effect of the deployment, its end or the end of its task is recovered', { timeout }, async () => {
    let points = 0
    const matrix: Matrix = { program, containment: 'cgroup' }
    await amongNeighbours(async () => {
      for (const when of moments.deploy) points += await untilOneFinishes((k) => crashAndRecover(matrix, 'deploy', k, when))
    })
    covered.push(`tmux: deploy at ${points}`)
  })
})
