import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { launchOne, lives, partsOf, wholeAgent } from '../../support/aws/agents.ts'
import { AwsWorld } from '../../support/aws/world.ts'
import { needs } from '../../support/real.ts'
import type { Json } from '../../support/server.ts'

/** A call that creates something takes effect late, or its answer cannot be read. It must leave nothing. */

needs('moto')

let world: AwsWorld

beforeAll(async () => {
  world = await AwsWorld.start()
})
afterEach(async () => await world.reset())
afterAll(async () => await world[Symbol.asyncDispose]())

/** Delays of the answer to a call. The timeout of a call is 8 s, so an answer after 4 s is in time, and one after 9 s is not. */
const delays: readonly (readonly [string, number])[] = [
  ['RunTask', 4_000],
  ['PutObject', 4_000],
  ['RegisterTargets', 4_000],
  ['RunTask', 9_000],
  ['PutObject', 9_000],
  ['RegisterTargets', 9_000],
]

test.each(delays)(
  'ecs: %s that takes %i ms while its request is closed leaves nothing that appears later',
  { timeout: 120_000 },
  async (operation, delayMs) => {
    await using server = await world.server()
    world.proxy.fail({ operation, fault: { delayMs }, times: 1 })
    const configuration = { command: lives }
    const body = { type: 'command', prompt: 'x', placement: 'ecs', configuration, requestId: 'impatient' }
    const answer = server.call('POST', '/api/agents', { body })
    await world.proxy.began(operation)
    expect(await server.post('/api/requests/impatient/cleanup', {})).toMatchObject({ success: true, errors: [] })
    // The AWS call has taken effect, although the request of the agent was closed.
    await world.proxy.saw(operation)
    expect(await world.left()).toEqual([])
    expect((await answer).status).toBeGreaterThanOrEqual(400)
  },
)

test.each(['RunTask', 'RegisterTargets'])('ecs: %s is repeated when its answer is truncated or not from AWS', async (operation) => {
  await using server = await world.server()
  world.proxy.fail({ operation, fault: 'cut', times: 1 }, { operation, fault: 'stranger', times: 1 })
  const agent = await launchOne(world, server)
  expect(await partsOf(world, agent)).toEqual(wholeAgent)
  expect(world.living()).toHaveLength(1)
  expect(await server.post(`/api/agents/${agent.id}/stop`, {})).toMatchObject({ success: true })
  expect(await world.left()).toEqual([])
})

test.each(['DescribeTargetHealth', 'DescribeTasks', 'HeadObject'])(
  'ecs: an answer to %s that is not from AWS proves nothing (G4)',
  { timeout: 120_000 },
  async (operation) => {
    await using server = await world.server({ 'reaper-interval': '1h' })
    const agent = await launchOne(world, server)
    world.proxy.fail({ operation, fault: 'stranger' })
    const { body } = await server.call<Json>('POST', `/api/agents/${agent.id}/stop`, { body: { grace: 1_000 } })
    expect((body.details ?? body).success).toBe(false)
    expect(await partsOf(world, agent)).not.toEqual([])
    world.proxy.heal()
    await server.post('/api/reaper/run', {})
    expect(await world.left()).toEqual([])
  },
)
