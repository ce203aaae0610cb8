import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { launchOne, partsOf, wholeAgent } from '../../support/aws/agents.ts'
import { amongForeignThings } from '../../support/aws/neighbours.ts'
import { AwsWorld } from '../../support/aws/world.ts'
import { temporaryHome } from '../../support/home.ts'
import { needs } from '../../support/real.ts'
import type { Json, TestServer } from '../../support/server.ts'
import { waitUntil } from '../../support/world.ts'

/**
 * The clean-up of one request, of the whole process, and of everything in the account goes through the same engine. No foreign resource is
 * touched.
 */

needs('moto')

let world: AwsWorld

beforeAll(async () => {
  world = await AwsWorld.start()
})
afterEach(async () => await world.reset())
afterAll(async () => await world[Symbol.asyncDispose]())

const ofRequest = (id: string): { requestId: string } => ({ requestId: id })

async function cleanup(server: TestServer, id: string, body: object = {}): Promise<Json> {
  return await server.post(`/api/requests/${id}/cleanup`, body)
}

describe('ecs: cleanup of a request', () => {
  test('uploads, deregisters, releases and stops, whether the agent succeeded or failed', async () => {
    await using server = await world.server()
    const client = await server.socket()
    for (const [request, code] of [
      ['success', 0],
      ['failure', 7],
    ] as const) {
      const argv = ['/bin/sh', '-c', `echo said; exit ${code}`]
      const id = await server.command(argv, { prompt: 'x', placement: 'ecs', ...ofRequest(request) })
      await client.event('agent:terminated', (data: Json) => data.agentId === id)
      const report = await cleanup(server, request)
      expect(report.success).toBe(true)
      expect((await server.get(`/api/agents/${id}`)).status).toBe(code === 0 ? 'completed' : 'failed')
      expect(await world.text(`ebb/results/${id}/stdout.log`)).toBe('said\n')
    }
    expect(await world.left()).toEqual([])
  })

  test('leaves agents of other requests running', async () => {
    await using server = await world.server()
    const [one, two] = await Promise.all([launchOne(world, server, ofRequest('one')), launchOne(world, server, ofRequest('two'))])
    expect(await cleanup(server, 'one')).toMatchObject({ success: true, trigger: 'request-finished', cleanedAgentsCount: 1 })
    expect(await partsOf(world, one)).toEqual([])
    expect(await partsOf(world, two)).toEqual(wholeAgent)
    expect((await server.get(`/api/agents/${two.id}`)).status).toBe('running')
    expect(world.proxy.of('StopTask').map(({ about }) => about)).toEqual([one.arn])
  })

  test('without force holds the task back when its upload fails, and does not stop it', async () => {
    await using server = await world.server()
    const agent = await launchOne(world, server, ofRequest('graceful'))
    world.proxy.fail({ operation: 'PutObject', fault: 'denied' })
    const report = await cleanup(server, 'graceful')
    expect(report.success).toBe(false)
    expect((await partsOf(world, agent))[0]).toBe('RUNNING')
    expect(world.proxy.of('StopTask')).toEqual([])
    world.proxy.heal()
    expect(await cleanup(server, 'graceful')).toMatchObject({ success: true })
  })

  test('twice is the same as once, and a closed request accepts no agent', async () => {
    await using server = await world.server()
    await launchOne(world, server, ofRequest('twice'))
    const [first, second] = await Promise.all([cleanup(server, 'twice'), cleanup(server, 'twice')])
    expect([first.success, second.success]).toEqual([true, true])
    expect(await cleanup(server, 'twice')).toMatchObject({ success: true })
    expect(world.proxy.of('StopTask')).toHaveLength(1)
    const late = await server.call('POST', '/api/agents', {
      body: { type: 'command', prompt: 'x', placement: 'ecs', requestId: 'twice', configuration: { command: ['true'] } },
    })
    expect(late).toMatchObject({ status: 409, body: { code: 'scope_closed' } })
  })
})

describe('ecs: cleanup at the exit of the process', () => {
  test('ends all agents of the process as a request cleanup does, and nothing else in the cluster', async () => {
    const neighbours = await amongForeignThings(world)
    const server = await world.server()
    const agents = [
      await launchOne(world, server, ofRequest('one')),
      await launchOne(world, server, ofRequest('two')),
      await launchOne(world, server),
    ]
    // A server that exits has six seconds for all agents. The runners stop quickly here, because stopping them takes a part of that time.
    world.tasks.stopTimeoutMs = 100
    await server.stop()
    // Exit code 0 means that all resources are released.
    expect((await server.ebb.ended).code).toBe(0)
    for (const agent of agents) expect(await partsOf(world, agent)).toEqual([])
    expect(await world.objects('ebb/results/')).toHaveLength(2 * agents.length + 1)
    expect(await world.left(neighbours.names)).toEqual([])
    expect(await neighbours.touched()).toEqual([])
  })

  test('exits with 3 while a target drains, and the sentinel releases the rest in order', {
    timeout: 90_000,
  }, async () => {
    world.targets.drainMs = 12_000
    const server = await world.server()
    const agent = await launchOne(world, server)
    server.ebb.signal('SIGTERM')
    expect((await server.ebb.ended).code).toBe(3)
    expect(await partsOf(world, agent)).toEqual(['RUNNING', 'draining', 'leased'])
    await waitUntil(() => partsOf(world, agent), 40_000, 'nothing of the agent is left')
    expect(await world.text(`ebb/results/${agent.id}/stdout.log`)).toBe('line\n')
  })

  test('"cleanup all" releases everything of Ebb and nothing foreign', async () => {
    const neighbours = await amongForeignThings(world)
    await using server = await world.server()
    await Promise.all([launchOne(world, server, ofRequest('one')), launchOne(world, server)])
    expect(await server.post('/api/cleanup', { scope: 'all' })).toMatchObject({ success: true })
    expect(await world.left(neighbours.names)).toEqual([])
    expect(await neighbours.touched()).toEqual([])
  })

  test('after SIGKILL the sentinel alone recovers', async () => {
    const home = temporaryHome()
    const server = await world.server({}, home)
    const agent = await launchOne(world, server, ofRequest('orphaned'))
    const neighbours = await amongForeignThings(world, { installation: 'x', scope: agent.id })
    server.ebb.signal('SIGKILL')
    await server.ebb.ended
    // The sentinel recovers the agent, because it has the settings and credentials of the server.
    await waitUntil(() => partsOf(world, agent), 30_000, 'nothing of the agent is left')
    expect(await world.left(neighbours.names)).toEqual([])
    expect(await neighbours.touched()).toEqual([])
    expect(await world.text(`ebb/results/${agent.id}/stdout.log`)).toBe('line\n')
  })

  test('with force stops the task although its target drains for minutes', { timeout: 90_000 }, async () => {
    world.targets.drainMs = 600_000
    await using server = await world.server()
    const agent = await launchOne(world, server, ofRequest('forced'))
    const report = await cleanup(server, 'forced', { force: true })
    const outcomes = Object.fromEntries(report.resources.map(({ kind, outcome }: Json) => [kind, outcome]))
    // The target can still be observed, so it is reported as stuck, and its address stays leased.
    expect(report.success).toBe(false)
    expect(outcomes).toMatchObject({ 'ecs-task': 'released', 'lb-target': 'stuck', 'address-lease': 'held-back', upload: 'released' })
    expect(await partsOf(world, agent)).toEqual(['draining', 'leased'])
    world.targets.all.clear()
    expect(await cleanup(server, 'forced')).toMatchObject({ success: true })
    expect(await partsOf(world, agent)).toEqual([])
  })

  test('with force works when the target cannot be deregistered, and when force comes later', {
    timeout: 90_000,
  }, async () => {
    world.targets.drainMs = 600_000
    await using server = await world.server()
    const [denied, late] = await Promise.all([launchOne(world, server, ofRequest('denied')), launchOne(world, server, ofRequest('late'))])
    const patient = cleanup(server, 'late')
    await waitUntil(async () => (await partsOf(world, late)).includes('draining'), 20_000, 'the target drains')
    expect(await cleanup(server, 'late', { force: true })).toMatchObject({ success: false })
    expect(await patient).toMatchObject({ success: false })
    expect(await partsOf(world, late)).toEqual(['draining', 'leased'])
    world.proxy.fail({ operation: 'DeregisterTargets', fault: 'denied' })
    expect(await cleanup(server, 'denied', { force: true })).toMatchObject({ success: false })
    expect(await partsOf(world, denied)).toEqual(['healthy', 'leased'])
    world.proxy.heal()
    world.targets.all.clear()
    for (const id of ['denied', 'late']) expect(await cleanup(server, id)).toMatchObject({ success: true })
  })

  test('with force gives up a failed upload and names it', { timeout: 90_000 }, async () => {
    await using server = await world.server()
    const agent = await launchOne(world, server, ofRequest('forced'))
    world.proxy.fail({ operation: 'PutObject', fault: 'denied' })
    // The runner ends quickly, because a slow one would use up the time that is left after the upload is given up.
    world.tasks.stopTimeoutMs = 100
    const report = await cleanup(server, 'forced', { force: true })
    expect(report.gaveUp.join(' ')).toMatch(/upload of s3:.* failed: AWS denies/)
    // Only the upload is given up. The local archive was written, although the upload had used up its time (G8).
    expect(report.gaveUp).toHaveLength(1)
    expect(report.resources.find(({ kind }: Json) => kind === 'upload').outcome).toBe('given-up')
    expect(await partsOf(world, agent)).toEqual([])
  })
})

describe('ecs: one engine for every cleanup', () => {
  test('a test reset, a reaper pass and a deletion touch nothing foreign', async () => {
    await using server = await world.server()
    const agent = await launchOne(world, server)
    const installation = (world.tasks.find(agent.arn)?.tags ?? []).find(({ key }) => key === 'ebb:installation')?.value ?? ''
    const neighbours = await amongForeignThings(world, { installation, scope: agent.id })
    const other = await launchOne(world, server)
    expect((await server.call('DELETE', `/api/agents/${other.id}`)).status).toBe(204)
    await server.post('/api/reaper/run', {})
    expect(await server.post('/api/test/reset-environment', {})).toMatchObject({ success: true })
    await server.post('/api/reaper/run', {})
    expect(await world.left(neighbours.names)).toEqual([])
    expect(await neighbours.touched()).toEqual([])
  })
})
