import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { agentOf, type EcsAgent, launchOne, lives, partsOf, wholeAgent } from '../../support/aws/agents.ts'
import type { Fault } from '../../support/aws/proxy.ts'
import { AwsWorld } from '../../support/aws/world.ts'
import { needs } from '../../support/real.ts'
import type { Json, TestServer } from '../../support/server.ts'

/**
 * Every call of a close fails once, loses its reply, or is slow: the end is clean, or honestly held back or stuck, and then clean when
 * the fault is gone and the reaper has passed.
 */

needs('moto')

let world: AwsWorld
let server: TestServer

beforeAll(async () => {
  world = await AwsWorld.start()
  // Only the passes that a test asks for: any other may end what it is about to look at.
  server = await world.server({ 'reaper-interval': '1h' })
})
afterEach(async () => {
  world.proxy.heal()
  expect(await world.left()).toEqual([])
  await world.reset()
})
afterAll(async () => {
  await server.stop()
  await world[Symbol.asyncDispose]()
})

/** Nobody lists them: they are those that a close was seen to make. */
async function callsOfAClose(): Promise<readonly string[]> {
  const agent = await launchOne(world, server)
  world.proxy.calls.length = 0
  expect(await stop(agent)).toMatchObject({ success: true })
  return [...new Set(world.proxy.calls.map(({ operation }) => operation))]
}

async function stop({ id }: EcsAgent): Promise<Json> {
  const { body } = await server.call<Json>('POST', `/api/agents/${id}/stop`, { body: { grace: 1_000 } })
  return body.details ?? body
}

/** A report that is not clean names what is left, and leaves it on the books. */
async function requireHonest(report: Json): Promise<void> {
  expect(report.errors.length).toBeGreaterThan(0)
  const { isClean, stuck, heldBack } = await server.get('/api/cleanup/status')
  // A listing that fails leaves nothing on the books: it is a close that could not look, and is run again.
  const isBlind = report.resources.some(({ name, outcome }: Json) => name === 'sweep' && outcome === 'stuck')
  expect({ isClean, isNamed: isBlind || stuck.length + heldBack.length > 0 }).toEqual({ isClean: false, isNamed: true })
  world.proxy.heal()
  await server.post('/api/reaper/run', {})
}

const once: readonly (readonly [string, Fault])[] = [
  ['is throttled', 'throttle'],
  ['fails with a 500', 'error'],
  ['loses its reply after the effect', 'lose'],
  ['meets a connection that is reset', 'reset'],
  ['has the half of its reply cut off', 'cut'],
  ['is answered by somebody who is not AWS', 'stranger'],
  ['meets credentials that have expired', 'expired'],
  ['is slow', { delayMs: 400 }],
]

describe('each call of a close, one at a time', () => {
  test.each(once)('%s: the agent ends clean', { timeout: 180_000 }, async (_name, fault) => {
    const operations = await callsOfAClose()
    expect(operations).toEqual(expect.arrayContaining(['PutObject', 'HeadObject', 'DeregisterTargets', 'DescribeTargetHealth', 'StopTask']))
    const ids = await Promise.all(operations.map(() => server.command(lives, { prompt: 'x', placement: 'ecs' })))
    const failed: string[] = []
    for (const [index, operation] of operations.entries()) {
      const agent = agentOf(world, ids[index] ?? '')
      world.proxy.fail({ operation, fault, times: 1 })
      const report = await stop(agent)
      if (!report.success) await requireHonest(report)
      world.proxy.heal()
      const left = await partsOf(world, agent)
      if (left.length > 0) failed.push(`${operation}: ${left.join(' ')}`)
    }
    expect(failed).toEqual([])
  })
})

/** Not only the first: a look in the middle of a wait, and the last one, on which the proof rests. */
describe('a later call of a close', () => {
  const later: readonly (readonly [string, Fault])[] = [
    ['fails with a 500', 'error'],
    ['loses its reply', 'lose'],
    ['meets credentials that have expired', 'expired'],
  ]

  test.each(later)('%s: the agent ends clean', { timeout: 180_000 }, async (_name, fault) => {
    const watched = ['HeadObject', 'DescribeTasks', 'DescribeTargetHealth']
    const first = await launchOne(world, server)
    world.proxy.calls.length = 0
    expect(await stop(first)).toMatchObject({ success: true })
    const points = watched.flatMap((operation) => {
      const last = world.proxy.of(operation).length - 1
      expect(last).toBeGreaterThan(0)
      return [...new Set([1, last])].map((skips) => ({ operation, skips }))
    })
    const ids = await Promise.all(points.map(() => server.command(lives, { prompt: 'x', placement: 'ecs' })))
    const failed: string[] = []
    for (const [index, { operation, skips }] of points.entries()) {
      const agent = agentOf(world, ids[index] ?? '')
      world.proxy.fail({ operation, fault, skips, times: 1 })
      const report = await stop(agent)
      if (!report.success) await requireHonest(report)
      world.proxy.heal()
      const left = await partsOf(world, agent)
      if (left.length > 0) failed.push(`${operation} after ${skips}: ${left.join(' ')}`)
    }
    expect(failed).toEqual([])
  })
})

describe('all calls at once', () => {
  test('a throttling storm ends the close without a false word, and the reaper finishes it', { timeout: 120_000 }, async () => {
    const agent = await launchOne(world, server)
    world.proxy.fail({ fault: 'throttle' })
    const report = await stop(agent)
    expect(report.success).toBe(false)
    // The runner is not AWS: the agent itself has ended. Nothing else has gone.
    expect(await partsOf(world, agent)).toEqual(wholeAgent)
    expect(report.resources.filter(({ kind, name }: Json) => /ecs-task|address-lease/.test(kind) && name !== 'sweep')).toMatchObject([
      { outcome: 'held-back' },
      { outcome: 'held-back' },
    ])
    await requireHonest(report)
    expect(await partsOf(world, agent)).toEqual([])
  })

  test('every call fails once: the agent ends clean', { timeout: 120_000 }, async () => {
    const agent = await launchOne(world, server)
    for (const operation of ['PutObject', 'HeadObject', 'DeregisterTargets', 'StopTask', 'DescribeTasks', 'DeleteObject', 'ListTasks'])
      world.proxy.fail({ operation, fault: 'error', times: 2 }, { operation, fault: 'lose', times: 1 })
    const report = await stop(agent)
    if (!report.success) await requireHonest(report)
    expect(await partsOf(world, agent)).toEqual([])
  })

  test('expired credentials are told in one sentence, and nothing is lost', { timeout: 120_000 }, async () => {
    const agent = await launchOne(world, server)
    world.proxy.fail({ fault: 'expired' })
    const report = await stop(agent)
    expect(report.errors.join(' ')).toMatch(/The AWS credentials have expired; renew them/)
    expect(JSON.stringify(report)).not.toMatch(/AWS_SECRET|Signature=/)
    await requireHonest(report)
    expect(await partsOf(world, agent)).toEqual([])
    expect(await world.objects(`ebb/results/${agent.id}/`)).toHaveLength(2)
  })
})
