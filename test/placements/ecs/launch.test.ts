import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { ecs } from '../../../src/placements/ecs/definition.ts'
import { launchOne, lives, partsOf, wholeAgent } from '../../support/aws/agents.ts'
import { AwsWorld } from '../../support/aws/world.ts'
import { ebb, temporaryHome } from '../../support/home.ts'
import { needs } from '../../support/real.ts'
import type { Json } from '../../support/server.ts'
import { waitUntil } from '../../support/world.ts'

/** An agent in an ECS task of its own, through a real server. All its parts exist, and all are removed. */

needs('moto')

let world: AwsWorld

beforeAll(async () => {
  world = await AwsWorld.start()
})
afterEach(async () => await world.reset())
afterAll(async () => await world[Symbol.asyncDispose]())

test('ecs: an agent runs in a task, its output arrives, and only its results are left', async () => {
  await using server = await world.server()
  const client = await server.socket()
  const argv = ['/bin/sh', '-c', 'echo one; echo two; cat; for n in $(seq 500); do echo line $n; done']
  const id = await server.command(argv, { prompt: 'three\n', placement: 'ecs' })
  await client.event('agent:terminated', (data: Json) => data.agentId === id)
  const messages: Json[] = await server.get(`/api/agents/${id}/messages`)
  const numbered = Array.from({ length: 500 }, (_, index) => `line ${index + 1}`)
  expect(messages.map(({ content }) => content)).toEqual(['three\n', 'one', 'two', 'three', ...numbered])
  expect((await server.get(`/api/agents/${id}`)).status).toBe('completed')
  expect(await world.left()).toEqual([])
  expect(await world.text(`ebb/results/${id}/stdout.log`)).toBe(`one\ntwo\nthree\n${numbered.join('\n')}\n`)
  expect((await world.objects('ebb/results/')).map(({ key }) => key)).toEqual([
    `ebb/results/${id}/stderr.log`,
    `ebb/results/${id}/stdout.log`,
  ])
})

test('ecs: one agent is one tagged task, one healthy target and one lease', async () => {
  await using server = await world.server()
  const agent = await launchOne(world, server)
  const tags = Object.fromEntries((world.tasks.find(agent.arn)?.tags ?? []).map(({ key, value }) => [key, value]))
  expect(Object.keys(tags).sort()).toEqual(['ebb:incarnation', 'ebb:installation', 'ebb:resource', 'ebb:scope'])
  expect(tags['ebb:scope']).toBe(agent.id)
  expect(await partsOf(world, agent)).toEqual(wholeAgent)
  expect((await server.get(`/api/agents/${agent.id}/resources`)).map(({ kind }: Json) => kind).sort()).toEqual([
    ...['address-lease', 'ecs-task', 'lb-target', 'log', 'log', 'remote-agent', 'upload'],
  ])
  expect(world.proxy.of('RunTask')).toHaveLength(1)
  // The token is stored neither in the ledger nor in the description of the ECS task, which others can read.
  const home = readdirSync(server.home).filter((name) => /\.db|installation/.test(name))
  expect(home.length).toBeGreaterThan(1)
  for (const name of home) expect(readFileSync(join(server.home, name)).includes(world.token)).toBe(false)
  expect(JSON.stringify(world.tasks.find(agent.arn)?.body)).not.toContain(world.token)
})

test('ecs: stop uploads, deregisters, stops and releases the address in this order, each with a proof', async () => {
  await using server = await world.server()
  const agent = await launchOne(world, server)
  world.proxy.calls.length = 0
  const report = await server.post(`/api/agents/${agent.id}/stop`, {})
  expect(report).toMatchObject({ success: true, errors: [], gaveUp: [] })
  const proofs = Object.fromEntries(report.resources.map(({ kind, proof }: Json) => [kind, proof.method]))
  expect(proofs).toMatchObject({
    'ecs-task': 'DescribeTasks: STOPPED',
    'lb-target': 'DescribeTargetHealth: not registered',
    'address-lease': 'HeadObject: 404',
    upload: 'HeadObject: size and SHA-256 are those of the logs',
  })
  const order = world.proxy.calls.map(({ operation }) => operation)
  expect(order.lastIndexOf('PutObject')).toBeLessThan(order.indexOf('StopTask'))
  expect(order.lastIndexOf('DescribeTargetHealth')).toBeLessThan(order.indexOf('StopTask'))
  expect(order.lastIndexOf('DescribeTasks')).toBeLessThan(order.indexOf('DeleteObject'))
  expect(await world.left()).toEqual([])
})

test('ecs: delete uploads nothing and removes rows and logs', async () => {
  await using server = await world.server()
  const agent = await launchOne(world, server)
  expect((await server.call('DELETE', `/api/agents/${agent.id}`)).status).toBe(204)
  expect(await world.left()).toEqual([])
  expect(await world.objects()).toEqual([])
  expect(await server.get('/api/cleanup/status')).toMatchObject({ isClean: true, resources: {}, leaks: [], stuck: [], heldBack: [] })
})

test('ecs: without a bucket and a target group an agent is only its task', async () => {
  await using server = await world.server({ 'ecs-bucket': undefined, 'ecs-target-group': undefined })
  const agent = await launchOne(world, server)
  expect(await partsOf(world, agent)).toEqual(['RUNNING'])
  expect(await server.post(`/api/agents/${agent.id}/stop`, {})).toMatchObject({ success: true })
  expect(await world.left()).toEqual([])
})

test('ecs: a target without leases is deregistered', async () => {
  await using server = await world.server({ 'ecs-bucket': undefined })
  const agent = await launchOne(world, server)
  expect(await partsOf(world, agent)).toEqual(['RUNNING', 'healthy'])
  expect(await server.post(`/api/agents/${agent.id}/stop`, {})).toMatchObject({ success: true })
  expect(await world.left()).toEqual([])
})

describe('ecs: a launch that fails', () => {
  test('without capacity says so and leaves nothing', async () => {
    await using server = await world.server()
    world.tasks.noCapacity = 'Capacity is unavailable at this time'
    const answer = await server.call('POST', '/api/agents', { body: body() })
    expect(answer).toMatchObject({
      status: 500,
      body: { code: 'launch_failed', message: expect.stringMatching(/Capacity is unavailable/) },
    })
    expect(await world.left()).toEqual([])
    expect(await server.get('/api/cleanup/status')).toMatchObject({ isClean: true })
  })

  test('because its task stops before it runs says why and leaves nothing', async () => {
    await using slow = await AwsWorld.start({ startMs: 60_000 })
    await using server = await slow.server()
    const answer = server.call('POST', '/api/agents', { body: body() })
    await slow.proxy.saw('DescribeTasks', 2)
    slow.runners[0]?.signal('SIGKILL')
    expect(await answer).toMatchObject({
      status: 500,
      body: { code: 'launch_failed', message: expect.stringMatching(/stopped before it ran: Essential container in task exited/) },
    })
    expect(await slow.left()).toEqual([])
  })

  test('because its request is closed meanwhile leaves nothing', async () => {
    await using server = await world.server()
    world.targets.areUnhealthy = true
    const answer = server.call('POST', '/api/agents', { body: { ...body(), requestId: 'impatient' } })
    await world.proxy.saw('DescribeTargetHealth', 3)
    expect(await server.post('/api/requests/impatient/cleanup', {})).toMatchObject({ success: true })
    expect((await answer).status).toBe(409)
    expect(await world.left()).toEqual([])
  })

  test('because of a wrong token fails at once and names the setting', async () => {
    await using server = await world.server({ 'ecs-token': 'another-token' })
    const answer = await server.call('POST', '/api/agents', { body: body() })
    expect(answer).toMatchObject({
      status: 500,
      body: { code: 'launch_failed', message: expect.stringMatching(/refuses access \(401\).* ecs\.token must be the EBB_TOKEN/) },
    })
    expect(await world.left()).toEqual([])
  })

  test('because of a wrong setting creates nothing and says what to do', async () => {
    await using server = await world.server({ 'ecs-container-name': 'agent' })
    const answer = await server.call('POST', '/api/agents', { body: body() })
    expect(answer).toMatchObject({
      status: 400,
      body: { code: 'launch_refused', message: expect.stringMatching(/no container agent, only runner/) },
    })
    expect(world.proxy.of('RunTask')).toHaveLength(0)
  })
})

test('ecs: a lost reply of RunTask still means one task', async () => {
  await using server = await world.server()
  world.proxy.fail({ operation: 'RunTask', fault: 'lose', times: 2 })
  const agent = await launchOne(world, server)
  expect(world.tasks.all.size).toBe(1)
  expect(await server.post(`/api/agents/${agent.id}/stop`, {})).toMatchObject({ success: true })
  expect(await world.left()).toEqual([])
})

test('ecs: a task that dies ends its agent, and its other resources are released', async () => {
  await using server = await world.server()
  const client = await server.socket()
  const agent = await launchOne(world, server)
  world.runners.at(-1)?.signal('SIGKILL')
  await client.event('agent:terminated', (data: Json) => data.agentId === agent.id)
  expect(await world.left()).toEqual([])
  expect(await world.objects(`ebb/results/${agent.id}/`)).toHaveLength(2)
})

test('ecs: a runner that does not answer is ended with its task', async () => {
  await using server = await world.server()
  const agent = await launchOne(world, server)
  const runner = world.runners.at(-1)
  runner?.signal('SIGSTOP')
  // A process that is stopped by SIGSTOP does not handle SIGTERM. After the stop timeout, ECS sends SIGKILL.
  const killed = world.proxy.saw('StopTask').then(() => runner?.signal('SIGKILL'))
  expect(await server.post(`/api/agents/${agent.id}/stop`, { force: true })).toMatchObject({ success: true })
  await killed
  await waitUntil(() => world.living().map(({ arn }) => arn), 10_000, 'its task has stopped')
  expect(await world.left()).toEqual([])
})

test('ecs doctor: shows every setting, and says which settings it cannot check', async () => {
  const words = world.words({ 'ecs-token': undefined, 'ecs-security-groups': 'sg-1' })
  const { stdout } = await ebb(['doctor', '--json', ...words], { home: temporaryHome(), env: world.environment() })
  const { settings } = JSON.parse(stdout.toString('utf8')) as { settings: { setting: string; isGood: boolean; says: string }[] }
  const says = Object.fromEntries(settings.map(({ setting, says }) => [setting, says]))
  expect(settings.filter(({ isGood }) => !isGood)).toEqual([])
  expect(says).toMatchObject({
    'ecs.cluster': expect.stringMatching(/is ACTIVE/),
    'ecs.taskDefinition': expect.stringMatching(/is ACTIVE/),
    'ecs.containerName': expect.stringMatching(/is in agent/),
    'ecs.targetGroup': expect.stringMatching(/accepts IP addresses/),
    'ecs.bucket': expect.stringMatching(/can be reached/),
    'ecs.subnets': expect.stringMatching(/subnet-.*not tried/),
    'ecs.securityGroups': expect.stringMatching(/sg-1: not tried/),
    'ecs.prefix': expect.stringMatching(/ebb: not tried/),
    'ecs.region': expect.stringMatching(/us-east-1/),
    'ecs.token': expect.stringMatching(/Not set: .*EBB_ECS_TOKEN/),
  })
  const known = Object.keys(ecs.options).map((key) => `ecs.${key.charAt(3).toLowerCase()}${key.slice(4)}`)
  expect(known.filter((setting) => !(setting in says))).toEqual([])
})

test.each([
  [
    'without a cluster',
    { 'ecs-cluster': undefined },
    'ecs.cluster',
    /ecs\.taskDefinition and .* are set, but the placement ecs needs ecs\.cluster/,
  ],
  ['without a region', { 'ecs-region': undefined }, 'ecs.cluster', /No AWS region is known for DescribeClusters; set ecs\.region/],
  ['with a task definition that is not there', { 'ecs-task-definition': 'nope' }, 'ecs.taskDefinition', /There is no task definition nope/],
  [
    'with a target group that is not there',
    { 'ecs-target-group': 'agents' },
    'ecs.targetGroup',
    /There is no target group agents.*which is its ARN/,
  ],
])('ecs doctor: says what to do %s', async (_name, more, setting, says) => {
  const env = { ...world.environment(), AWS_REGION: undefined }
  const { code, stdout } = await ebb(['doctor', '--json', ...world.words(more)], { home: temporaryHome(), env })
  const { settings } = JSON.parse(stdout.toString('utf8')) as { settings: { setting: string; isGood: boolean; says: string }[] }
  expect(settings.find((result) => result.setting === setting)).toMatchObject({ isGood: false, says: expect.stringMatching(says) })
  expect(code).toBe(1)
})

function body(): object {
  return { type: 'command', prompt: 'x', placement: 'ecs', configuration: { command: lives } }
}
