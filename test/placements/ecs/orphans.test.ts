import { randomUUID } from 'node:crypto'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { launchOne, partsOf } from '../../support/aws/agents.ts'
import { amongForeignThings } from '../../support/aws/neighbours.ts'
import { AwsWorld, otherFamily } from '../../support/aws/world.ts'
import { ebb, temporaryHome } from '../../support/home.ts'
import { needs } from '../../support/real.ts'
import type { Json, TestServer } from '../../support/server.ts'
import { waitUntil } from '../../support/world.ts'

/** What carries our tags and is on no books: found by the reverse sweep, shown first, and ended only when it was seen twice. */

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

/** As a server leaves it whose database is lost: a task, a lease, a target and parts of an upload, of a supervisor that is dead. */
async function orphan(): Promise<Orphaned> {
  const home = temporaryHome()
  const server = await world.server({}, home)
  const agent = await launchOne(world, server)
  const marks = Object.fromEntries((world.tasks.find(agent.arn)?.tags ?? []).map(({ key, value }) => [key, value]))
  await server.stop()
  // What the exit had no time for the sentinel does.
  await waitUntil(() => partsOf(world, agent), 40_000, 'nothing of the agent is left')
  const [installation = '', incarnation = ''] = [marks['ebb:installation'], marks['ebb:incarnation']]
  const scope = randomUUID()
  const tags = { 'ebb:installation': installation, 'ebb:incarnation': incarnation, 'ebb:scope': scope, 'ebb:resource': `${scope}.3` }
  // Of a task definition that the settings do not name any more.
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

test('they are shown by a dry run, left at the first sight, and ended at the second; nothing of others is', async () => {
  const neighbours = await amongForeignThings(world)
  const { home } = await orphan()
  await using server = await world.server({ 'reaper-minimum-age': '0s', 'reaper-interval': '1h' }, home)
  world.proxy.calls.length = 0
  const dry = await reap(server, { dryRun: true })
  // Three kinds need the leases, and they are looked at once.
  expect(world.proxy.of('ListObjectsV2')).toHaveLength(1)
  expect(kindsOf(dry.found)).toEqual(all)
  expect(kindsOf(dry.left)).toEqual(all)
  expect(kindsOf((await reap(server)).left)).toEqual(all)
  expect(await reap(server)).toMatchObject({ left: [] })
  expect(await world.left(neighbours.names)).toEqual([])
  expect(await neighbours.touched()).toEqual([])
  // It was nobody's results.
  expect(world.proxy.of('StopTask').length).toBeGreaterThan(0)
})

test('from the command line a pass only shows them', async () => {
  const { home, names } = await orphan()
  const shown = await ebb(['reap', '--json', ...world.words()], { home, env: world.environment() })
  expect(shown.stdout.toString('utf8')).toMatch(/ecs-task/)
  expect((await world.left()).every((one) => [...names].some((name) => one.includes(name)))).toBe(true)
  expect(await world.left()).toHaveLength(4)
})
