import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { request } from 'node:http'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { leftInHome } from '../../support/ledger-file.ts'
import { bindMount } from '../../support/mounts.ts'
import type { Client, Json } from '../../support/server.ts'
import { useServer } from '../../support/shared-server.ts'
import { survivors } from '../../support/world.ts'

const server = useServer()
const remove = (id: string, query = ''): Promise<Json> => server.call('DELETE', `/api/agents/${id}${query}`)
const ended = (id: string): Promise<Json> => server.get(`/api/agents/${id}/status?wait=15000`)
const stubborn = ['sh', '-c', 'trap "" TERM INT; echo ready; while :; do sleep 1000; done']

async function ready(argv: readonly string[]): Promise<string> {
  const id = await server.command(argv)
  await server.get(`/api/agents/${id}/messages?since=1&wait=15000`)
  return id
}

/** Requires that nothing of the agent is left: row, messages, resources, files and archive. */
async function expectGone(id: string): Promise<void> {
  for (const path of ['', '/status', '/process', '/messages', '/resources'])
    expect(await server.call('GET', `/api/agents/${id}${path}`)).toMatchObject({ status: 404, body: { code: 'agent_not_found' } })
  expect(await remove(id)).toMatchObject({ status: 404, body: { code: 'agent_not_found' } })
  expect(leftInHome(server.home).filter((name) => name.includes(id))).toEqual([])
  expect(existsSync(join(server.home, 'archive', id))).toBe(false)
}

describe('DELETE /agents/:id answers 204 once everything is gone, of an agent that', () => {
  const schedule = (...events: object[]): object => ({ type: 'synthetic', prompt: '', configuration: { schedule: events } })

  it('is initializing', async () => {
    const client = await server.socket()
    const id = await server.launch(schedule({ delay: 0, type: 'status', data: { status: 'initializing' } }))
    await client.event('agent:updated', (event) => event.agentId === id && event.status === 'initializing')
    expect((await remove(id)).status).toBe(204)
    await expectGone(id)
  })

  it('is running', async () => {
    const id = await ready(['sh', '-c', 'setsid sleep 1000 & echo ready; exec sleep 1000'])
    const answer = await remove(id)
    expect([answer.status, answer.body]).toEqual([204, undefined])
    await expectGone(id)
  })

  it('is stopping', async () => {
    const id = await ready(stubborn)
    const stopping = server.post(`/api/agents/${id}/stop`, { grace: 30_000 })
    await server.call('GET', '/api/health')
    expect((await remove(id, '?force=true')).status).toBe(204)
    expect(await stopping).toMatchObject({ success: true })
    await expectGone(id)
  })

  it.each([
    ['completed', ['true']],
    ['failed', ['false']],
  ])('has %s', async (status, argv) => {
    const id = await server.command(argv)
    expect(await ended(id)).toMatchObject({ status })
    expect(existsSync(join(server.home, 'archive', id))).toBe(true)
    expect((await remove(id)).status).toBe(204)
    await expectGone(id)
  })

  it('was terminated', async () => {
    const id = await server.command(['sleep', '1000'])
    await server.post(`/api/agents/${id}/stop`)
    expect((await remove(id)).status).toBe(204)
    await expectGone(id)
  })

  it('ends by itself at the same time', async () => {
    for (let n = 0; n < 10; n++) {
      const id = await server.command(['true'])
      expect((await remove(id)).status).toBe(204)
      await expectGone(id)
    }
    expect(readdirSync(join(server.home, 'archive'))).toEqual([])
  })
})

describe('concurrent deletions join', () => {
  const several = (id: string): Promise<Json[]> => Promise.all(Array.from({ length: 8 }, () => remove(id)))

  it('agent that ends slowly: all deletions answer 204', async () => {
    const client = await server.socket()
    const id = await ready(stubborn)
    // The connections are opened before the deletions. A deletion that had to open its own connection could arrive after the end of the
    // agent.
    await Promise.all(Array.from({ length: 9 }, () => server.get('/api/health')))
    const answers = several(id)
    await client.event('agent:updated', (event) => event.agentId === id && event.status === 'stopping')
    const forced = await remove(id, '?force=true')
    expect([...(await answers), forced].map((one) => one.status)).toEqual(Array.from({ length: 9 }, () => 204))
    await expectOneEvent(client, id)
  })

  it('agent that has ended: at least one deletion answers 204, the others 204 or 404', async () => {
    const client = await server.socket()
    const id = await server.command(['true'])
    await ended(id)
    const answers = (await several(id)).map((one) => one.status)
    // A deletion that arrives after the agent is deleted gets 404.
    expect(answers.toSorted()[0]).toBe(204)
    expect(answers.filter((status) => status !== 204 && status !== 404)).toEqual([])
    await expectOneEvent(client, id)
  })

  async function expectOneEvent(client: Client, id: string): Promise<void> {
    await expectGone(id)
    await client.event('agent:deleted', (event) => event.agentId === id)
    const next = await server.launch({ type: 'synthetic', prompt: '' })
    await client.event('agent:created', (event) => event.agent.id === next)
    expect(client.of('agent:deleted').filter((event: Json) => event.agentId === id)).toHaveLength(1)
  }
})

it('a deletion with force does not wait for an agent that ignores signals', async () => {
  const client = await server.socket()
  const id = await ready(stubborn)
  expect((await remove(id, '?force=true')).status).toBe(204)
  const { report } = await client.event('cleanup:report', (event) => event.report.scope.id === id)
  const { steps } = report.resources.find(({ kind }: Json) => kind === 'process-tree')
  expect(steps.map(({ step }: Json) => step)).toEqual(['kill'])
  await expectGone(id)
})

it('a deletion with a timeout shorter than the grace of an agent kills it within the timeout', async () => {
  const id = await ready(stubborn)
  expect((await remove(id, '?timeout=4000')).status).toBe(204)
  await expectGone(id)
})

it('a deletion goes on when its caller hangs up', async () => {
  const marker = `deleted-${process.pid}-${Date.now()}`
  const id = await server.command(stubborn, { configuration: { command: stubborn, env: { MARKER: marker } } })
  await server.get(`/api/agents/${id}/messages?since=1&wait=15000`)
  const client = await server.socket()
  const call = request(`${server.url}/api/agents/${id}?timeout=8000`, { method: 'DELETE' })
  call.on('error', () => {})
  call.end()
  await client.event('agent:updated', (event) => event.agentId === id && event.status === 'stopping')
  call.destroy()
  await server.post(`/api/agents/${id}/stop`, { force: true })
  await client.event('agent:deleted', (event) => event.agentId === id)
  expect(survivors(marker)).toEqual([])
  await expectGone(id)
})

describe('a resource that cannot be released', () => {
  /** A file that is a mount point can be neither moved nor removed (rename(2), unlink(2): EBUSY), not even by root. */
  async function immovable(): Promise<{ id: string; mount: Disposable }> {
    const id = await server.command(['sleep', '1000'])
    const [log] = (await server.get(`/api/agents/${id}/resources`)).filter((one: Json) => one.kind === 'log')
    return { id, mount: bindMount('/dev/null', log.name) }
  }

  it('makes a deletion answer 409 with the report; the row stays `stuck` until the resource can be released', async () => {
    const { id, mount } = await immovable()
    using _ = mount
    const client = await server.socket()
    const { status, body } = await remove(id, '?timeout=3000')
    expect({ status, code: body.code }).toEqual({ status: 409, code: 'not_released' })
    expect(body.details).toMatchObject({
      success: false,
      trigger: 'deleted',
      scope: { kind: 'agent', id },
      errors: [expect.stringContaining('EBUSY')],
    })
    expect(body.details.resources.map((one: Json) => [one.kind, one.outcome]).sort()).toEqual([
      ['log', 'released'],
      ['log', 'stuck'],
      ['process-tree', 'released'],
      ['temp-folder', 'released'],
    ])
    await client.event('agent:updated', (event) => event.agentId === id && event.status === 'stuck')
    expect(await server.get(`/api/agents/${id}/status?wait=15000`)).toEqual({ agentId: id, status: 'stuck' })
    expect(await server.get('/api/agents/active')).toMatchObject([{ id, status: 'stuck' }])
    expect(await server.get('/api/health')).toMatchObject({ status: 'ok', stuck: 1 })
    const clean = await server.get('/api/cleanup/status')
    expect(clean).toMatchObject({
      isClean: false,
      runningProcesses: 0,
      stuck: [expect.stringContaining(id)],
      resources: { log: { stuck: 1 } },
    })
    expect((await server.get('/api/test/verify-clean-state')).issues.join('\n')).toContain(id)

    // The alert is sent at the third failed deletion in a row, and not earlier.
    expect((await remove(id, '?timeout=300')).status).toBe(409)
    expect(client.of('cleanup:alert')).toEqual([])
    expect((await remove(id, '?timeout=300')).status).toBe(409)
    const alert = await client.event('cleanup:alert')
    expect(alert).toEqual({ scope: { kind: 'agent', id }, failures: 3, timestamp: expect.any(String) })
    expect(await server.post('/api/reaper/run', { dryRun: true })).toMatchObject({
      found: [{ kind: 'log', why: 'held-back' }],
      released: [],
      left: [{ kind: 'log' }],
    })

    mount[Symbol.dispose]()
    expect((await remove(id)).status).toBe(204)
    await client.event('agent:deleted', (event) => event.agentId === id)
    await expectGone(id)
  })

  it('is released by a reaper pass once that is possible', async () => {
    const { id, mount } = await immovable()
    using _ = mount
    expect((await remove(id, '?timeout=3000')).status).toBe(409)
    mount[Symbol.dispose]()
    expect(await server.post('/api/reaper/run')).toMatchObject({ found: [{ kind: 'log' }], released: [{ kind: 'log' }], left: [] })
    await expectGone(id)
  })

  it('makes a reset answer `success: false` with its name; a later reset succeeds', async () => {
    const { id, mount } = await immovable()
    using _ = mount
    const answer = await server.call('POST', '/api/test/reset-environment', { body: { timeout: 200 } })
    expect(answer).toMatchObject({ status: 200, body: { success: false } })
    expect(answer.body.errors.join('\n')).toContain(id)
    mount[Symbol.dispose]()
    expect(await server.post('/api/test/reset-environment')).toMatchObject({ success: true })
    await expectGone(id)
  })

  it('because its archive cannot be written is held back; a deletion removes the partial archive', async () => {
    const id = await server.command(['sleep', '1000'])
    const inTheWay = join(server.home, 'archive', id, 'stderr.log')
    mkdirSync(inTheWay, { recursive: true })
    writeFileSync(join(inTheWay, 'x'), '')
    const report = await server.post(`/api/agents/${id}/stop`)
    expect(report).toMatchObject({ success: false, errors: [expect.stringContaining('stderr.log')] })
    expect((await server.get('/api/cleanup/status')).heldBack).toHaveLength(1)
    expect(existsSync(join(server.home, 'archive', id, 'stdout.log'))).toBe(true)
    expect((await remove(id)).status).toBe(204)
    await expectGone(id)
  })

  it('because the archive of an ended agent cannot be removed makes the deletion answer 409, and the row stays', async () => {
    const id = await server.command(['true'])
    await ended(id)
    using mount = bindMount('/dev/null', join(server.home, 'archive', id, 'stdout.log'))
    const { status, body } = await remove(id)
    expect({ status, code: body.code }).toEqual({ status: 409, code: 'not_released' })
    expect(body.details).toMatchObject({ success: false, scope: { kind: 'agent', id }, errors: [expect.stringContaining('archive')] })
    expect(await server.get(`/api/agents/${id}/messages`)).toHaveLength(1)
    expect(await server.get(`/api/agents/${id}/status`)).toEqual({ agentId: id, status: 'stuck' })
    expect(await server.get('/api/cleanup/status')).toMatchObject({
      isClean: false,
      stuck: [expect.stringContaining(`archive of agent ${id}`)],
    })
    expect(await server.post(`/api/agents/${id}/stop`)).toMatchObject({ success: true, trigger: 'completed' })
    mount[Symbol.dispose]()
    expect((await remove(id)).status).toBe(204)
    await expectGone(id)
  })
})

it('a reset names an archive that cannot be removed, and removes all others', async () => {
  const ids = [await server.command(['true']), await server.command(['true']), await server.command(['sleep', '1000'])]
  for (const id of ids.slice(0, 2)) await ended(id)
  const [stuck = '', ...gone] = ids
  using mount = bindMount('/dev/null', join(server.home, 'archive', stuck, 'stdout.log'))
  const report = await server.post('/api/test/reset-environment', { force: true })
  expect(report).toMatchObject({ success: false, cleanedAgentsCount: 2 })
  expect(report.errors[0]).toMatch(new RegExp(`^archive of agent ${stuck}: .*${stuck}`))
  for (const id of gone) await expectGone(id)
  expect(await server.get('/api/agents')).toMatchObject([{ id: stuck, status: 'stuck' }])
  mount[Symbol.dispose]()
  expect(await server.post('/api/test/reset-environment')).toMatchObject({ success: true, cleanedAgentsCount: 1 })
})

it('DELETE /agents/:id: a bad id, an unknown id or a bad query is refused', async () => {
  const id = await server.command(['sleep', '1000'])
  expect(await remove('nobody')).toMatchObject({ status: 400, body: { code: 'invalid_id' } })
  expect(await remove('6f0f7a2e-9c60-4f6a-9d3c-2f7f0f8f6a11')).toMatchObject({ status: 404, body: { code: 'agent_not_found' } })
  for (const query of ['?force=maybe', '?timeout=-1', '?timeout=soon', '?timeout=1e3', '?timeout=0x10'])
    expect(await remove(id, query)).toMatchObject({ status: 400, body: { code: 'invalid_request' } })
  // An empty timeout counts as absent. If it counted as 0, the deletion would fail.
  expect((await remove(id, '?timeout=')).status).toBe(204)
})
