import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { lives } from '../../support/aws/agents.ts'
import { AwsWorld } from '../../support/aws/world.ts'
import { needs } from '../../support/real.ts'

/** A call that makes something is carried out late, and its request is closed meanwhile: nothing may appear afterwards. */

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
