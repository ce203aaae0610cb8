import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { amongNeighbours } from '../support/decoys.ts'
import { needs } from '../support/real.ts'
import { type Json, startServer, type TestServer } from '../support/server.ts'
import { describe as show, survivors, waitUntil } from '../support/world.ts'
import type { Moment, RemoteScenario } from './job.ts'
import { at, describeCrash, type Matrix, recover, run, untilOneFinishes } from './matrix.ts'
import { Place } from './place.ts'
import { buildDriver, type DriverEnd, type Program } from './program.ts'

/** The crash matrix for an agent at a runner: a control plane that dies at any effect leaves a clean runner and a clean ledger. */

const moments: Record<RemoteScenario, readonly Moment[]> = {
  'remote-terminate': ['before', 'during', 'after'],
  'remote-rollback': ['before', 'during'],
  'remote-delete': ['before', 'during'],
}
const scenarios = Object.keys(moments) as readonly RemoteScenario[]
const cleanWithinMs = 5_000
/** The time in which the sentinel must clean up. It starts a recovery process. */
const sentinelWithinMs = 20_000
const timeout = 300_000

let program: Program
let runner: TestServer
const covered: string[] = []

beforeAll(async () => {
  program = await buildDriver()
  runner = await startServer(['--runner'])
  // The drivers, and the recovery in this process, read the address of the runner from this variable.
  process.env.EBB_REMOTE_URL = runner.url
})

afterAll(async () => {
  delete process.env.EBB_REMOTE_URL
  await runner.stop()
  program[Symbol.dispose]()
  console.log(`Crash points of agents at a runner:\n  ${covered.join('\n  ')}`)
})

async function crashAndRecover(matrix: Matrix, role: RemoteScenario, k: number, when: Moment): Promise<DriverEnd> {
  const place = new Place()
  const crash = { at: k, when }
  const end = await run(matrix, { place, role, crash })
  await at(describeCrash(crash, end), async () => {
    const isDeleted = role === 'remote-delete' && (place.isDeletionRecorded() || !end.isKilled)
    if (end.isKilled) expect(await recover(place)).toEqual([])
    // The recovery has observed the end of the agent, so no wait is needed. Processes at the runner carry the path of the workspace.
    expect(survivors(place.workspace).map(show)).toEqual([])
    await place.becomesClean(cleanWithinMs)
    if (isDeleted) expect([place.agentRows(), place.archivedOutput()]).toEqual([0, undefined])
    else if (end.isReady && role === 'remote-terminate') expect(place.archivedOutput()).toMatch(/line/)
  })
  place.remove()
  return end
}

describe('G9: an agent at a runner', () => {
  needs('cgroup')

  test.each(scenarios)('a control plane killed at any effect of "%s" is recovered, and the runner is clean', { timeout }, async (role) => {
    let points = 0
    await amongNeighbours(async () => {
      for (const when of moments[role])
        points += await untilOneFinishes((k) => crashAndRecover({ program, containment: 'cgroup' }, role, k, when))
    })
    covered.push(`${role} at ${points}`)
    await waitUntil(async () => (await runner.get<Json[]>('/api/agents')).map(({ id }) => id), 15_000, 'the runner has no rows left')
  })

  test.each([
    ['runner.stream', 'before'],
    ['runner.stream', 'during'],
    ['runner.stream', 'after'],
    ['runner.stop', 'during'],
    ['runner.stop', 'after'],
  ] as const)('the crash points include %s, %s', async (effect, when) => {
    const place = new Place()
    const end = await run({ program, containment: 'cgroup' }, { place, role: 'remote-terminate', crash: { at: 1, when, effect } })
    expect(end).toMatchObject({ isKilled: true, effect: `${when} ${effect}` })
    expect(await recover(place)).toEqual([])
    expect(survivors(place.workspace).map(show)).toEqual([])
    await place.becomesClean(cleanWithinMs)
    place.remove()
  })

  test('a recovery of a running agent that is killed at any effect is recovered', { timeout }, async () => {
    const matrix: Matrix = { program, containment: 'cgroup' }
    let points = 0
    for (const when of ['before', 'during'] as const)
      points += await untilOneFinishes(async (k) => {
        const place = new Place()
        // The supervisor dies when everything is launched and nothing is closed.
        const launched = { at: 1, when: 'before', effect: 'ledger.beginClose' } as const
        expect((await run(matrix, { place, role: 'remote-terminate', crash: launched })).isKilled).toBe(true)
        const crash = { at: k, when }
        const end = await run(matrix, { place, role: 'recover', crash })
        await at(describeCrash(crash, end), async () => {
          if (end.isKilled) expect(await recover(place)).toEqual([])
          expect(survivors(place.workspace).map(show)).toEqual([])
          await place.becomesClean(cleanWithinMs)
        })
        place.remove()
        return end
      })
    covered.push(`recovery at ${points}`)
  })

  test('the sentinel alone cleans up after any effect', { timeout }, async () => {
    const points = await untilOneFinishes(
      async (k) => {
        const place = new Place()
        const crash = { at: k, when: 'before' } as const
        const end = await run({ program, containment: 'cgroup' }, { place, role: 'remote-terminate', watched: true, crash })
        await at(describeCrash(crash, end), async () => {
          await place.becomesClean(sentinelWithinMs)
          expect(survivors(place.workspace).map(show)).toEqual([])
        })
        place.remove()
        return end
      },
      2,
      5,
    )
    covered.push(`sentinel at ${points}`)
  })
})
