import { execFileSync } from 'node:child_process'
import { readdirSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { realClock } from '../../../src/host/clock.ts'
import { ClientPool } from '../../../src/placements/ecs/clients.ts'
import { awsEffects } from '../../../src/placements/ecs/effects.ts'
import { awsQueries } from '../../../src/placements/ecs/queries.ts'
import { UploadKind } from '../../../src/placements/ecs/upload.ts'
import { launchOne, partsOf } from '../../support/aws/agents.ts'
import { AwsWorld } from '../../support/aws/world.ts'
import { temporaryHome } from '../../support/home.ts'
import { needs } from '../../support/real.ts'
import type { Json, TestServer } from '../../support/server.ts'
import { waitUntil } from '../../support/world.ts'

/**
 * The upload of the output is an obligation that must be met before the task is stopped (G8). S3 itself confirms the upload. Until then the
 * task is reported as held back; only force or the deadline gives the upload up.
 */

needs('moto')

let world: AwsWorld

beforeAll(async () => {
  world = await AwsWorld.start()
})
afterEach(async () => await world.reset())
afterAll(async () => await world[Symbol.asyncDispose]())

describe('ecs: an upload that cannot be confirmed', () => {
  test('holds back its task, lets the target be deregistered, and is completed by the reaper', async () => {
    await using server = await world.server()
    const agent = await launchOne(world, server)
    world.proxy.fail({ operation: 'PutObject', fault: 'denied' })
    const { body } = await server.call<Json>('POST', `/api/agents/${agent.id}/stop`, { body: {} })
    const report = body.details ?? body
    const outcomes = Object.fromEntries(report.resources.map(({ kind, outcome }: Json) => [kind, outcome]))
    expect(outcomes).toMatchObject({
      'remote-agent': 'released',
      upload: 'held-back',
      'lb-target': 'released',
      'ecs-task': 'held-back',
      'address-lease': 'held-back',
      log: 'held-back',
    })
    expect(await partsOf(world, agent)).toEqual(['RUNNING', 'leased'])
    const status = await server.get('/api/cleanup/status')
    expect(status.heldBack.join(' ')).toMatch(/upload s3:\/\/results.*AWS denies/)
    world.proxy.heal()
    expect(await server.post('/api/reaper/run', {})).toMatchObject({ left: [] })
    expect(await partsOf(world, agent)).toEqual([])
    expect(await world.text(`ebb/results/${agent.id}/stdout.log`)).toBe('line\n')
    expect((await server.get(`/api/agents/${agent.id}`)).status).toBe('terminated')
  })

  test('is not trusted because of a 200 from S3 (G3)', async () => {
    await using server = await world.server()
    const agent = await launchOne(world, server)
    world.proxy.fail({ operation: 'PutObject', fault: 'pretend' })
    const { body } = await server.call<Json>('POST', `/api/agents/${agent.id}/stop`, { body: {} })
    expect((body.details ?? body).errors.join(' ')).toMatch(/S3 does not confirm size and checksum/)
    expect((await partsOf(world, agent))[0]).toBe('RUNNING')
    world.proxy.heal()
    expect(await server.post('/api/reaper/run', {})).toMatchObject({ left: [] })
    expect(await world.text(`ebb/results/${agent.id}/stdout.log`)).toBe('line\n')
  })

  test('is given up after its deadline, and the report says so', async () => {
    await using server = await world.server({ 'ecs-upload-deadline': '1s' })
    const agent = await launchOne(world, server)
    world.proxy.fail({ operation: 'PutObject', fault: 'denied' })
    const began = Date.now()
    for (let report: Json = {}; report.success !== true; ) {
      const { body } = await server.call<Json>('POST', `/api/agents/${agent.id}/stop`, { body: {} })
      report = body.details ?? body
      if (report.success) expect(report.gaveUp.join(' ')).toMatch(/upload of s3:.*AWS denies/)
      if (Date.now() - began > 30_000) throw new Error(`The upload was not given up within 30 s: ${JSON.stringify(report.errors)}`)
    }
    expect(await partsOf(world, agent)).toEqual([])
    expect(await world.objects('ebb/results/')).toEqual([])
  })

  test('is retried under force until two seconds before the deadline, and everything else is released in that time', async () => {
    await using server = await world.server()
    const agent = await launchOne(world, server)
    world.proxy.fail({ operation: 'PutObject', fault: 'denied' })
    // The runner ends quickly, so that the two seconds after the upload are enough.
    world.tasks.stopTimeoutMs = 100
    const report = await server.post<Json>(`/api/agents/${agent.id}/stop`, { force: true })
    expect(report).toMatchObject({ success: true, gaveUp: [expect.stringMatching(/upload of s3:.*AWS denies/)] })
    expect(report.duration).toBeGreaterThan(8_000)
    expect(await partsOf(world, agent)).toEqual([])
  })

  test('does not overwrite a foreign object at its key', async () => {
    await using server = await world.server()
    const agent = await launchOne(world, server)
    await world.put(`ebb/results/${agent.id}/stdout.log`, 'theirs')
    const { body } = await server.call<Json>('POST', `/api/agents/${agent.id}/stop`, { body: {} })
    expect((body.details ?? body).errors.join(' ')).toMatch(/something else is at s3:\/\/results.*not overwritten/)
    expect(await world.text(`ebb/results/${agent.id}/stdout.log`)).toBe('theirs')
    await world.remove(`ebb/results/${agent.id}/stdout.log`)
    expect(await server.post('/api/reaper/run', {})).toMatchObject({ left: [] })
    expect(await world.text(`ebb/results/${agent.id}/stdout.log`)).toBe('line\n')
  })
})

/** 21 MB in lines of 100 bytes: two full parts and a short one. */
const largeOutput = 'head -c 15800000 /dev/zero | base64 -w 99'

async function launchLarge(server: TestServer, script: string): Promise<string> {
  const configuration = { command: ['/bin/sh', '-c', script], limits: { logBytes: 100_000_000 } }
  return await server.launch({ type: 'command', prompt: 'x', placement: 'ecs', configuration })
}

test('ecs: a large log is uploaded in parts, byte for byte', { timeout: 120_000 }, async () => {
  await using server = await world.server()
  const id = await launchLarge(server, largeOutput)
  await waitUntil(async () => (await server.get(`/api/agents/${id}`)).status === 'completed', 60_000, 'the agent has ended')
  expect(world.proxy.of('UploadPart')).toHaveLength(3)
  expect(world.proxy.of('CompleteMultipartUpload')).toHaveLength(1)
  const whole = execFileSync('/bin/sh', ['-c', largeOutput], { maxBuffer: 100_000_000 }).toString('utf8')
  const stored = await world.text(`ebb/results/${id}/stdout.log`)
  expect({ bytes: stored.length, isSame: stored === whole }).toEqual({ bytes: whole.length, isSame: true })
  expect(await world.left()).toEqual([])
})

test('ecs: a large upload that fails half-way and is then deleted leaves no parts', { timeout: 120_000 }, async () => {
  await using server = await world.server()
  const id = await launchLarge(server, `${largeOutput}; exec sleep 600`)
  const logs = join(server.home, 'logs')
  const bytes = (): number => readdirSync(logs).reduce((sum, name) => sum + statSync(join(logs, name)).size, 0)
  await waitUntil(() => bytes() > 21_000_000, 60_000, 'all of it is in the log')
  world.proxy.fail({ operation: 'CompleteMultipartUpload', fault: 'error' }, { operation: 'AbortMultipartUpload', fault: 'error' })
  const { body } = await server.call<Json>('POST', `/api/agents/${id}/stop`, { body: {} })
  expect((body.details ?? body).success).toBe(false)
  expect(await world.openUploads()).toEqual([`ebb/results/${id}/stdout.log`])
  world.proxy.heal()
  expect((await server.call('DELETE', `/api/agents/${id}`)).status).toBe(204)
  expect(await world.left()).toEqual([])
})

test('ecs: an upload that is already in the bucket is not repeated by another process', async () => {
  world.becomeEnvironment()
  const folder = temporaryHome()
  const files = Object.fromEntries(
    ['stdout', 'stderr'].map((stream) => {
      const path = join(folder, `${stream}.log`)
      writeFileSync(path, `${stream}\n`)
      return [stream, { path, archive: `${path}.gone` }]
    }),
  )
  const place = { bucket: world.bucket, prefix: 'ebb', region: 'us-east-1' }
  const upload = async (): Promise<number> => {
    world.proxy.calls.length = 0
    const pool = new ClientPool({ region: 'us-east-1', endpoint: world.proxy.url })
    const deps = { aws: awsEffects(pool), queries: awsQueries(pool), installation: 'here', place, givesUpAfterMs: undefined }
    const kind = new UploadKind(deps)
    const rest = { incarnation: '1-2-3-4', kind: kind.kind, dependsOn: [], onLoss: 'end' as const, detail: { files } }
    const ref = kind.name({ id: 'agent.5', scopeId: 'agent', spec: { ...place, installation: 'here' }, ...rest })
    await kind.meet('upload', ref, { signal: new AbortController().signal, clock: realClock })
    return world.proxy.of('PutObject').length
  }
  expect(await upload()).toBe(2)
  expect(await upload()).toBe(0)
  expect(await world.text('ebb/results/agent/stdout.log')).toBe('stdout\n')
})
