import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { launchOne, lives, partsOf, wholeAgent } from '../../support/aws/agents.ts'
import { AwsWorld } from '../../support/aws/world.ts'
import { needs } from '../../support/real.ts'
import type { Json } from '../../support/server.ts'

/** A call that makes something is carried out late, or nobody can read its answer: nothing may be left of it. */

needs('moto')

let world: AwsWorld

beforeAll(async () => {
  world = await AwsWorld.start()
})
afterEach(async () => await world.reset())
afterAll(async () => await world[Symbol.asyncDispose]())

/** A call has 8 s: the first is answered, and of the second nobody ever hears. */
const delays: readonly (readonly [string, number])[] = [
  ['RunTask', 4_000],
  ['PutObject', 4_000],
  ['RegisterTargets', 4_000],
  ['RunTask', 9_000],
  ['PutObject', 9_000],
  ['RegisterTargets', 9_000],
]

test.each(delays)(
  '%s that takes %i ms when its request is closed leaves nothing that appears later',
  { timeout: 120_000 },
  async (operation, delayMs) => {
    await using server = await world.server()
    world.proxy.fail({ operation, fault: { delayMs }, times: 1 })
    const configuration = { command: lives }
    const body = { type: 'command', prompt: 'x', placement: 'ecs', configuration, requestId: 'impatient' }
    const answer = server.call('POST', '/api/agents', { body })
    await world.proxy.began(operation)
    expect(await server.post('/api/requests/impatient/cleanup', {})).toMatchObject({ success: true, errors: [] })
    // By now it has been carried out, whoever still wanted it.
    await world.proxy.saw(operation)
    expect(await world.left()).toEqual([])
    expect((await answer).status).toBeGreaterThanOrEqual(400)
  },
)

test.each(['RunTask', 'RegisterTargets'])(
  '%s whose answer is cut off, or comes from a stranger, is no refusal: it is asked for again',
  async (operation) => {
    await using server = await world.server()
    world.proxy.fail({ operation, fault: 'cut', times: 1 }, { operation, fault: 'stranger', times: 1 })
    const agent = await launchOne(world, server)
    expect(await partsOf(world, agent)).toEqual(wholeAgent)
    expect(world.living()).toHaveLength(1)
    expect(await server.post(`/api/agents/${agent.id}/stop`, {})).toMatchObject({ success: true })
    expect(await world.left()).toEqual([])
  },
)

test.each(['DescribeTargetHealth', 'DescribeTasks', 'HeadObject'])(
  '%s that only a stranger answers proves nothing (G4)',
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
