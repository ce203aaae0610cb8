import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { image } from '../support/docker.ts'
import { useDockerd } from '../support/docker-agents.ts'
import { installationOf } from '../support/ledger-file.ts'
import { missing, needs } from '../support/real.ts'
import type { Crash, DockerScenario, Moment } from './job.ts'
import { at, describeCrash, type Matrix, recover, run, untilOneFinishes } from './matrix.ts'
import { Place } from './place.ts'
import { buildDriver, type DriverEnd, type Program } from './program.ts'

/** The crash matrix for agents in containers. Leftovers are read with the docker command. */

needs('docker', 'cgroup')
const daemon = useDockerd()
const cleanWithinMs = 10_000
const timeout = 300_000

/**
 * Which crash points are tried, because each one costs a container. Effects with a delayed answer, which all of the daemon's have, are
 * tried `during`, where the request may be on its way, and `after`, where it is done and its answer unread. Only some points are tried
 * `before`: effects without a delay are the same as in the other matrices.
 */
const passes: Record<
  Exclude<DockerScenario, 'docker-paused'>,
  readonly { readonly when: Moment; readonly first: number; readonly stride: number }[]
> = {
  'docker-terminate': [
    { when: 'during', first: 1, stride: 1 },
    { when: 'after', first: 1, stride: 1 },
    { when: 'before', first: 1, stride: 3 },
  ],
  'docker-rollback': [
    { when: 'during', first: 1, stride: 2 },
    { when: 'before', first: 2, stride: 5 },
  ],
  'docker-delete': [
    { when: 'during', first: 2, stride: 2 },
    { when: 'before', first: 3, stride: 5 },
  ],
}

/** Every effect in the daemon, with a scenario that has it. The close of a paused container has most of them. */
const effects = [
  ['docker-terminate', 'create'],
  ['docker-terminate', 'start'],
  ['docker-paused', 'signal'],
  ['docker-paused', 'forbidRestart'],
  ['docker-terminate', 'remove'],
  ['docker-paused', 'unpause'],
] as const

let program: Program
/** The effects in the daemon that any scenario has crashed at. */
const crashedAt = new Set<string>()

beforeAll(async () => {
  if (missing('docker') !== undefined) return
  // The driver, and the recovery in this process, read these settings from the environment.
  Object.assign(process.env, { EBB_DOCKER_IMAGE: image, EBB_DOCKER_HOST: daemon().host, EBB_DOCKER_NETWORK: 'none' })
  program = await buildDriver()
})

afterAll(() => {
  for (const name of ['IMAGE', 'HOST', 'NETWORK']) delete process.env[`EBB_DOCKER_${name}`]
  program?.[Symbol.dispose]()
})

async function crashAndRecover(role: DockerScenario, crash: Crash): Promise<DriverEnd> {
  const matrix: Matrix = { program, containment: 'cgroup' }
  const place = new Place()
  const end = await run(matrix, { place, role, crash })
  const inDaemon = / docker\.(.*)$/.exec(end.effect ?? '')?.[1]
  if (inDaemon !== undefined) crashedAt.add(inDaemon)
  await at(describeCrash(crash, end), async () => {
    const isDeleted = role === 'docker-delete' && (place.isDeletionRecorded() || !end.isKilled)
    if (end.isKilled) {
      place.takeFreedPlaces()
      expect(await recover(place)).toEqual([])
    } else expect(end.done?.left).toEqual([])
    await place.becomesClean(cleanWithinMs)
    expect(daemon().containers(`ebb.installation=${installationOf(place.home)}`)).toEqual([])
    if (isDeleted) expect([place.agentRows(), place.archivedOutput()]).toEqual([0, undefined])
    // Everything that the agent had printed when it was killed is in the archive, once.
    else if (end.isReady && role === 'docker-terminate')
      expect(place.archivedOutput()?.split('\n').toSorted()).toEqual(['', 'daemon', 'line'])
  })
  place.remove()
  return end
}

describe('G9: an agent in a container', () => {
  test.each(Object.keys(passes) as (keyof typeof passes)[])(
    'a supervisor killed at any effect of "%s" is recovered',
    { timeout },
    async (role) => {
      for (const { when, first, stride } of passes[role])
        await untilOneFinishes((k) => crashAndRecover(role, { at: k, when }), first, stride)
    },
  )

  test.each(effects.flatMap(([role, effect]) => (['during', 'after'] as const).map((when) => [role, when, effect] as const)))(
    'a supervisor of "%s" killed %s docker.%s is recovered',
    { timeout },
    async (role, when, effect) => {
      const end = await crashAndRecover(role, { at: 1, when, effect: `docker.${effect}` })
      expect(end).toMatchObject({ isKilled: true, effect: `${when} docker.${effect}` })
    },
  )

  test('docker: every effect in the daemon that a scenario has is in the list of effects', () => {
    expect([...crashedAt].toSorted()).toEqual(effects.map(([, effect]) => effect).toSorted())
  })
})
