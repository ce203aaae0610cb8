import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { agentOf, type EcsAgent, launchOne, lives, partsOf, wholeAgent } from '../../support/aws/agents.ts'
import type { Fault } from '../../support/aws/proxy.ts'
import { AwsWorld } from '../../support/aws/world.ts'
import { needs } from '../../support/real.ts'
import type { Json, TestServer } from '../../support/server.ts'

/**
 * Every call of a close fails once, loses its reply, or is slow. The close must end clean, or report held back or stuck; and the state
 * must be clean after the fault is gone and the reaper has run.
 */

needs('moto')

let world: AwsWorld
let server: TestServer

beforeAll(async () => {
  world = await AwsWorld.start()
  // The reaper makes no timed passes, because a pass could release what a test is about to check.
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

/** Returns the names of the AWS operations that a real close calls. */
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

/** Requires that an unsuccessful report names what is left, and that the ledger still contains it. */
async function requireLeftoversReported(report: Json): Promise<void> {
  expect(report.errors.length).toBeGreaterThan(0)
  const { isClean, stuck, heldBack } = await server.get('/api/cleanup/status')
  // A failed listing leaves no record in the ledger. Then the sweep is reported as stuck, and the close must be requested again.
  const isBlind = report.resources.some(({ name, outcome }: Json) => name === 'sweep' && outcome === 'stuck')
  expect({ isClean, isNamed: isBlind || stuck.length + heldBack.length > 0 }).toEqual({ isClean: false, isNamed: true })
  world.proxy.heal()
  await server.post('/api/reaper/run', {})
}

const once: readonly (readonly [string, Fault])[] = [
  ['is throttled', 'throttle'],
  ['fails with a 500', 'error'],
  ['loses its reply after the effect', 'lose'],
  ['gets a connection reset', 'reset'],
  ['gets half of a reply', 'cut'],
  ['is answered by a server that is not AWS', 'stranger'],
  ['is made with expired credentials', 'expired'],
  ['is slow', { delayMs: 400 }],
]

describe('ecs: a fault in one call of a close', () => {
  test.each(once)('%s: the agent ends clean', { timeout: 180_000 }, async (_name, fault) => {
    const operations = await callsOfAClose()
    expect(operations).toEqual(expect.arrayContaining(['PutObject', 'HeadObject', 'DeregisterTargets', 'DescribeTargetHealth', 'StopTask']))
    const ids = await Promise.all(operations.map(() => server.command(lives, { prompt: 'x', placement: 'ecs' })))
    const failed: string[] = []
    for (const [index, operation] of operations.entries()) {
      const agent = agentOf(world, ids[index] ?? '')
      world.proxy.fail({ operation, fault, times: 1 })
      const report = await stop(agent)
      if (!report.success) await requireLeftoversReported(report)
      world.proxy.heal()
      const left = await partsOf(world, agent)
      if (left.length > 0) failed.push(`${operation}: ${left.join(' ')}`)
    }
    expect(failed).toEqual([])
  })
})

/** The faulty call is either in the middle of a wait, or the last call of its operation, on which the proof rests. */
describe('ecs: a fault in a later call of a close', () => {
  const later: readonly (readonly [string, Fault])[] = [
    ['fails with a 500', 'error'],
    ['loses its reply', 'lose'],
    ['is made with expired credentials', 'expired'],
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
      if (!report.success) await requireLeftoversReported(report)
      world.proxy.heal()
      const left = await partsOf(world, agent)
      if (left.length > 0) failed.push(`${operation} after ${skips}: ${left.join(' ')}`)
    }
    expect(failed).toEqual([])
  })
})

describe('ecs: faults in all calls of a close', () => {
  test('throttling of all calls makes the close report what is left, and the reaper completes it', { timeout: 120_000 }, async () => {
    const agent = await launchOne(world, server)
    world.proxy.fail({ fault: 'throttle' })
    const report = await stop(agent)
    expect(report.success).toBe(false)
    // The agent itself has ended, because its runner can be reached without AWS. All AWS resources are left.
    expect(await partsOf(world, agent)).toEqual(wholeAgent)
    expect(report.resources.filter(({ kind, name }: Json) => /ecs-task|address-lease/.test(kind) && name !== 'sweep')).toMatchObject([
      { outcome: 'held-back' },
      { outcome: 'held-back' },
    ])
    await requireLeftoversReported(report)
    expect(await partsOf(world, agent)).toEqual([])
  })

  test('the agent ends clean when every call fails a few times', { timeout: 120_000 }, async () => {
    const agent = await launchOne(world, server)
    for (const operation of ['PutObject', 'HeadObject', 'DeregisterTargets', 'StopTask', 'DescribeTasks', 'DeleteObject', 'ListTasks'])
      world.proxy.fail({ operation, fault: 'error', times: 2 }, { operation, fault: 'lose', times: 1 })
    const report = await stop(agent)
    if (!report.success) await requireLeftoversReported(report)
    expect(await partsOf(world, agent)).toEqual([])
  })

  test('expired credentials are reported in one sentence, and no result is lost', { timeout: 120_000 }, async () => {
    const agent = await launchOne(world, server)
    world.proxy.fail({ fault: 'expired' })
    const report = await stop(agent)
    expect(report.errors.join(' ')).toMatch(/The AWS credentials have expired; renew them/)
    expect(JSON.stringify(report)).not.toMatch(/AWS_SECRET|Signature=/)
    await requireLeftoversReported(report)
    expect(await partsOf(world, agent)).toEqual([])
    expect(await world.objects(`ebb/results/${agent.id}/`)).toHaveLength(2)
  })
})
