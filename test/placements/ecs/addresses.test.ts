import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { Handles } from '../../../src/core/ports/handles.ts'
import type { CreateCtx } from '../../../src/core/ports/kind.ts'
import { realClock } from '../../../src/host/clock.ts'
import { AddressLeaseKind, type addressLeaseKind } from '../../../src/placements/ecs/address-lease.ts'
import { ClientPool } from '../../../src/placements/ecs/clients.ts'
import { taskLabel } from '../../../src/placements/ecs/ecs-task.ts'
import { awsEffects } from '../../../src/placements/ecs/effects.ts'
import { awsQueries } from '../../../src/placements/ecs/queries.ts'
import { usualTimes } from '../../../src/placements/ecs/times.ts'
import { launchOne, lives, partsOf, wholeAgent } from '../../support/aws/agents.ts'
import { AwsWorld, otherFamily } from '../../support/aws/world.ts'
import { needs } from '../../support/real.ts'

/** One request owns an address at a time, across hosts too. An address may belong to a foreign task by the time of the close (G10). */

needs('moto')

let world: AwsWorld

beforeAll(async () => {
  world = await AwsWorld.start()
  world.becomeEnvironment()
})
afterEach(async () => await world.reset())
afterAll(async () => await world[Symbol.asyncDispose]())

const body = { type: 'command', prompt: 'x', placement: 'ecs', configuration: { command: lives } }

test('ecs: an address is used again after its agent was stopped', async () => {
  await using server = await world.server()
  for (let turn = 0; turn < 3; turn++) {
    world.tasks.nextAddresses.push('127.0.7.7')
    const agent = await launchOne(world, server)
    expect(agent.address).toBe('127.0.7.7')
    expect(await server.post(`/api/agents/${agent.id}/stop`, {})).toMatchObject({ success: true })
  }
  expect(await world.left()).toEqual([])
})

describe('ecs: a lease of another host', () => {
  const metadata = (arn: string): Record<string, string> => ({
    'ebb-installation': 'another-one',
    'ebb-incarnation': '1-2-3-4',
    'ebb-resource': 'theirs.4',
    'ebb-task': arn,
    'ebb-cluster': 'agents',
  })

  test('on a running task makes the launch fail with a clear error, and stays', async () => {
    await using server = await world.server()
    const theirs = await world.runDecoy({})
    await world.put('ebb/leases/127.0.7.8', '{}', metadata(theirs.arn))
    world.tasks.nextAddresses.push('127.0.7.8')
    const answer = await server.call('POST', '/api/agents', { body })
    expect(answer).toMatchObject({
      status: 500,
      body: { message: expect.stringMatching(/127\.0\.7\.8 is leased to theirs\.4 of another installation, whose task .* runs/) },
    })
    expect(await world.left(new Set([theirs.arn]))).toEqual(['lease ebb/leases/127.0.7.8'])
  })

  test('on a task that has stopped, or that ECS no longer knows, is taken over', async () => {
    await using server = await world.server()
    const theirs = await world.runDecoy({})
    theirs.status = 'STOPPED'
    theirs.desired = 'STOPPED'
    const forgotten = theirs.arn.replace(/[^/]+$/, 'forgotten')
    for (const [address, arn] of [
      ['127.0.7.9', theirs.arn],
      ['127.0.7.10', forgotten],
    ] as const) {
      await world.put(`ebb/leases/${address}`, '{}', metadata(arn))
      world.tasks.nextAddresses.push(address)
      const agent = await launchOne(world, server)
      expect(await partsOf(world, agent)).toEqual(wholeAgent)
      expect(await server.post(`/api/agents/${agent.id}/stop`, {})).toMatchObject({ success: true })
    }
    expect(await world.left()).toEqual([])
  })

  test('that cannot be parsed is not taken over', async () => {
    await using server = await world.server()
    await world.put('ebb/leases/127.0.7.11', 'who knows')
    world.tasks.nextAddresses.push('127.0.7.11')
    const answer = await server.call('POST', '/api/agents', { body })
    expect(answer.body).toMatchObject({ message: expect.stringMatching(/whose task cannot be queried/) })
    expect(await world.left()).toEqual(['lease ebb/leases/127.0.7.11'])
  })
})

interface Host {
  readonly kind: AddressLeaseKind
  readonly ref: ReturnType<AddressLeaseKind['name']>
  readonly ctx: CreateCtx<typeof addressLeaseKind>
}

/** Creates one of many hosts that want the same address, with the lease kind that a server uses. */
function hostOf(number: number, arn: string): Host {
  const pool = new ClientPool({ region: 'us-east-1', endpoint: world.proxy.url })
  const place = { bucket: world.bucket, prefix: 'ebb', region: 'us-east-1' }
  const installation = `host-${number}`
  const kind = new AddressLeaseKind({ aws: awsEffects(pool), queries: awsQueries(pool), times: usualTimes, installation, place })
  const spec = { ...place, installation }
  const handles = new Handles()
  handles.add(taskLabel, { address: '127.0.7.12', arn, cluster: 'agents' })
  const rest = { incarnation: '1-2-3-4', kind: kind.kind, dependsOn: [], onLoss: 'end' as const, detail: { address: '127.0.7.12' } }
  const ref = kind.name({ id: `agent-${number}.4`, scopeId: `agent-${number}`, spec, ...rest })
  const ctx = { signal: new AbortController().signal, clock: realClock, handles, live: undefined, record: async () => {} }
  return { kind, ref, ctx }
}

test('ecs: of eight hosts that request one address at once, one gets it, and the errors of the others name it', async () => {
  const tasks = await Promise.all(Array.from({ length: 8 }, () => world.runDecoy({})))
  const hosts = tasks.map(({ arn }, number) => hostOf(number, arn))
  const outcomes = await Promise.allSettled(hosts.map(({ kind, ref, ctx }) => kind.create(ref, ref, ctx)))
  expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
  for (const outcome of outcomes)
    if (outcome.status === 'rejected')
      expect(String(outcome.reason)).toMatch(/127\.0\.7\.12 is leased to agent-\d\.4 of another installation, whose task .* runs/)
  expect(await world.objects('ebb/leases/')).toHaveLength(1)
})

test('ecs: a lease taken over between its observation and its deletion stays with the new owner', async () => {
  const [one, two] = await Promise.all([world.runDecoy({}), world.runDecoy({})])
  const [old, next] = [hostOf(1, one.arn), hostOf(2, two.arn)]
  await old.kind.create(old.ref, old.ref, old.ctx)
  expect(await old.kind.observe(old.ref, old.ctx)).toMatchObject({ is: 'present' })
  one.status = 'STOPPED'
  await next.kind.create(next.ref, next.ref, next.ctx)
  await old.kind.release(old.ref, 'kill', old.ctx)
  expect(await next.kind.observe(next.ref, next.ctx)).toMatchObject({ is: 'present' })
  expect(await old.kind.observe(old.ref, old.ctx)).toMatchObject({
    is: 'absent',
    proof: { method: 'HeadObject: another lease has replaced it' },
  })
})

test('ecs: a lease is not deleted without a condition when the store does not support conditions', async () => {
  const task = await world.runDecoy({})
  const host = hostOf(1, task.arn)
  await host.kind.create(host.ref, host.ref, host.ctx)
  expect(await host.kind.observe(host.ref, host.ctx)).toMatchObject({ is: 'present' })
  // The fault applies to every attempt of the DeleteObject call, so retries fail too.
  world.proxy.fail({ operation: 'DeleteObject', fault: 'unsupported', times: 5 })
  await expect(host.kind.release(host.ref, 'kill', host.ctx)).rejects.toThrow(/DeleteObject/)
  expect(await world.objects('ebb/leases/')).toHaveLength(1)
})

describe('ecs: a target whose address has a new owner', () => {
  test('is not deregistered when the lease names the owner', async () => {
    await using server = await world.server()
    const agent = await launchOne(world, server)
    const other = {
      'ebb-installation': 'another-one',
      'ebb-incarnation': '1-2-3-4',
      'ebb-resource': 'theirs.4',
      'ebb-task': 'x',
      'ebb-cluster': 'agents',
    }
    await world.put(`ebb/leases/${agent.address}`, '{}', other)
    const report = await server.post(`/api/agents/${agent.id}/stop`, {})
    expect(report.success).toBe(true)
    expect(world.proxy.of('DeregisterTargets')).toEqual([])
    expect(await partsOf(world, agent)).toEqual(['healthy', 'leased'])
  })

  test("is not deregistered when Ebb's task has stopped and another task of the cluster has the address, with or without a lease", async () => {
    await using server = await world.server()
    const agent = await launchOne(world, server)
    // The ECS task has ended, and Ebb has not noticed it. The lease still belongs to Ebb.
    Object.assign(world.tasks.find(agent.arn) ?? {}, { status: 'STOPPED', desired: 'STOPPED' })
    world.tasks.nextAddresses.push(agent.address)
    const theirs = await world.runDecoy({}, 'somebody', otherFamily)
    world.targets.register(world.group, agent.address, world.port)
    const report = await server.post(`/api/agents/${agent.id}/stop`, {})
    expect(report.success).toBe(true)
    expect(world.proxy.of('DeregisterTargets')).toEqual([])
    expect(await world.left(new Set([theirs.arn]))).toEqual([`target ${agent.address} healthy`])
  })

  test('is not deregistered when another task has the address and there are no leases', async () => {
    await using server = await world.server({ 'ecs-bucket': undefined })
    const agent = await launchOne(world, server)
    world.tasks.nextAddresses.push(agent.address)
    await world.runDecoy({})
    const report = await server.post(`/api/agents/${agent.id}/stop`, {})
    expect(report.success).toBe(true)
    expect(world.proxy.of('DeregisterTargets')).toEqual([])
  })
})

test('ecs: a task that lost its tags is not touched, and the error says so', async () => {
  await using server = await world.server({ 'ecs-bucket': undefined, 'ecs-target-group': undefined })
  const agent = await launchOne(world, server)
  const task = world.tasks.find(agent.arn)
  const tags = task?.tags ?? []
  Object.assign(task ?? {}, { tags: [] })
  const answer = await server.call('POST', `/api/agents/${agent.id}/stop`, { body: {} })
  expect(JSON.stringify(answer.body)).toMatch(/does not carry the tags of/)
  expect(world.proxy.of('StopTask')).toEqual([])
  Object.assign(task ?? {}, { tags })
  await server.post('/api/reaper/run', {})
  expect(await world.left()).toEqual([])
})
