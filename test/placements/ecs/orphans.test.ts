import { randomUUID } from 'node:crypto'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { launchOne, partsOf } from '../../support/aws/agents.ts'
import { amongForeignThings } from '../../support/aws/neighbours.ts'
import { AwsWorld, otherFamily } from '../../support/aws/world.ts'
import { ebb, temporaryHome } from '../../support/home.ts'
import { needs } from '../../support/real.ts'
import type { Json, TestServer } from '../../support/server.ts'
import { waitUntil } from '../../support/world.ts'

/**
 * AWS resources with Ebb's tags and without a ledger record. The listing finds them, a dry run shows them, and the reaper releases them
 * when it has seen them twice.
 */

needs('moto')

let world: AwsWorld

beforeAll(async () => {
  world = await AwsWorld.start()
})
afterEach(async () => await world.reset())
afterAll(async () => await world[Symbol.asyncDispose]())

interface Orphaned {
  readonly home: string
  readonly names: ReadonlySet<string>
}

/** The state after a server lost its database: a task, a lease, a target and an upload of a dead supervisor. */
async function orphan(): Promise<Orphaned> {
  const home = temporaryHome()
  const server = await world.server({}, home)
  const agent = await launchOne(world, server)
  const marks = Object.fromEntries((world.tasks.find(agent.arn)?.tags ?? []).map(({ key, value }) => [key, value]))
  await server.stop()
  // The sentinel releases what the server had no time to release at its exit.
  await waitUntil(() => partsOf(world, agent), 40_000, 'nothing of the agent is left')
  const [installation = '', incarnation = ''] = [marks['ebb:installation'], marks['ebb:incarnation']]
  const scope = randomUUID()
  const tags = { 'ebb:installation': installation, 'ebb:incarnation': incarnation, 'ebb:scope': scope, 'ebb:resource': `${scope}.3` }
  // The task has a task definition that the settings no longer name.
  const task = await world.runDecoy(tags, scope, otherFamily)
  const metadata = {
    'ebb-installation': installation,
    'ebb-incarnation': incarnation,
    'ebb-resource': `${scope}.4`,
    'ebb-task': task.arn,
    'ebb-cluster': 'agents',
  }
  await world.put(`ebb/leases/${task.address}`, '{}', metadata)
  world.targets.register(world.group, task.address, world.port)
  await world.beginUpload(`ebb/results/${scope}/stdout.log`)
  return { home, names: new Set([task.arn, task.address, scope]) }
}

const kindsOf = (orphans: readonly Json[]): readonly string[] => orphans.map(({ kind }) => kind).sort()
const all = ['address-lease', 'ecs-task', 'lb-target', 'upload']

async function reap(server: TestServer, body: object = {}): Promise<Json> {
  return await server.post('/api/reaper/run', body)
}

test('ecs orphans: a dry run shows them, the first pass leaves them, the second releases them, and foreign resources stay', async () => {
  const neighbours = await amongForeignThings(world)
  const { home } = await orphan()
  await using server = await world.server({ 'reaper-minimum-age': '0s', 'reaper-interval': '1h' }, home)
  world.proxy.calls.length = 0
  const dry = await reap(server, { dryRun: true })
  // Three resource kinds need the list of leases. The leases are listed once for all three.
  expect(world.proxy.of('ListObjectsV2')).toHaveLength(1)
  expect(kindsOf(dry.found)).toEqual(all)
  expect(kindsOf(dry.left)).toEqual(all)
  expect(kindsOf((await reap(server)).left)).toEqual(all)
  expect(await reap(server)).toMatchObject({ left: [] })
  expect(await world.left(neighbours.names)).toEqual([])
  expect(await neighbours.touched()).toEqual([])
  // An orphan has no upload to wait for, so the reaper stopped its task.
  expect(world.proxy.of('StopTask').length).toBeGreaterThan(0)
})

test('ecs orphans: "ebb reap" without options only shows them', async () => {
  const { home, names } = await orphan()
  const shown = await ebb(['reap', '--json', ...world.words()], { home, env: world.environment() })
  expect(shown.stdout.toString('utf8')).toMatch(/ecs-task/)
  expect((await world.left()).every((resource) => [...names].some((name) => resource.includes(name)))).toBe(true)
  expect(await world.left()).toHaveLength(4)
})
