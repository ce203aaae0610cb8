import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { startEbb } from '../../support/home.ts'
import { installationOf } from '../../support/ledger-file.ts'
import { type Json, startServer } from '../../support/server.ts'
import { useServer } from '../../support/shared-server.ts'
import { survivors } from '../../support/world.ts'

const server = useServer()
const stubborn = ['sh', '-c', 'trap "" TERM INT; echo ready; while :; do sleep 1000; done']
const reset = (body?: object): Promise<Json> => server.call('POST', '/api/test/reset-environment', body ? { body } : {})

async function ready(argv: readonly string[], more: object = {}): Promise<string> {
  const id = await server.command(argv, more)
  await server.get(`/api/agents/${id}/messages?since=1&wait=15000`)
  return id
}

describe('POST /test/reset-environment', () => {
  it('deletes agents in every status, and counts them', async () => {
    const client = await server.socket()
    const ids = [
      await ready(['sh', '-c', 'echo x; exec sleep 1000']),
      await server.command(['true']),
      await server.command(['sleep', '1000'], { namespace: 'other', requestId: 'r' }),
    ]
    await server.get(`/api/agents/${ids[1]}/status?wait=15000`)
    await server.post(`/api/agents/${ids[0]}/stop`)
    for (const agentId of ids) client.socket.emit('subscribe', { agentId })
    await client.event('subscribed', (event) => event.agentId === ids[2])
    const answer = await reset()
    expect(answer.status).toBe(200)
    expect(answer.body).toMatchObject({ success: true, trigger: 'test-reset', scope: { kind: 'host' }, errors: [], gaveUp: [] })
    expect([answer.body.cleanedAgentsCount, answer.body.cleanedMessagesCount]).toEqual([3, 4])
    expect(await server.get('/api/agents')).toEqual([])
    expect(await server.get('/api/test/verify-clean-state')).toEqual({
      isClean: true,
      issues: [],
      agentCount: 0,
      messageCount: 0,
      runningProcesses: 0,
      activeSubscriptions: 0,
    })
    expect(readdirSync(join(server.home, 'archive'))).toEqual([])
    for (const agentId of ids) {
      await client.event('unsubscribed', (event) => event.agentId === agentId)
      await client.event('agent:deleted', (event) => event.agentId === agentId)
    }
    await client.event('cleanup:report', ({ report }) => report.trigger === 'test-reset' && report.cleanedAgentsCount === 3)
    expect(await server.call('GET', '/api/requests/r?namespace=other')).toMatchObject({ status: 404 })
  })

  it('succeeds when there is nothing to do, repeatedly', async () => {
    for (let n = 0; n < 2; n++)
      expect((await reset()).body).toMatchObject({ success: true, cleanedAgentsCount: 0, cleanedMessagesCount: 0 })
  })

  it('with force does not wait for an agent that ignores signals', async () => {
    await ready(stubborn)
    const { body } = await reset({ force: true })
    expect(body).toMatchObject({ success: true, cleanedAgentsCount: 1 })
    const { steps } = body.resources.find((one: Json) => one.kind === 'process-tree')
    expect(steps.map((one: Json) => one.step)).toEqual(['kill'])
  })

  it('gives all agents together its timeout, then kills the rest', async () => {
    const marker = `reset-${process.pid}-${Date.now()}`
    for (let n = 0; n < 3; n++) await ready(stubborn, { configuration: { command: stubborn, env: { MARKER: marker } } })
    const { body } = await reset({ timeout: 600 })
    expect(body).toMatchObject({ success: true, cleanedAgentsCount: 3 })
    expect(body.duration).toBeGreaterThanOrEqual(600)
    expect(body.duration).toBeLessThan(5_600)
    expect(survivors(marker)).toEqual([])
    const trees = body.resources.filter((one: Json) => one.kind === 'process-tree')
    for (const { steps } of trees) expect(steps.map((one: Json) => one.step)).toEqual(['terminate', 'kill'])
  })

  it('with waitForCompletion false answers 202 and refuses launches until it is done', async () => {
    const client = await server.socket()
    await ready(stubborn)
    const { status, body } = await reset({ waitForCompletion: false, timeout: 30_000 })
    expect({ status, body }).toEqual({ status: 202, body: { id: expect.any(String) } })
    const launch = { body: { type: 'synthetic', prompt: '', requestId: 'meanwhile' } }
    expect(await server.call('POST', '/api/agents', launch)).toMatchObject({ status: 409, body: { code: 'resetting' } })
    expect(await server.call('POST', '/api/requests', { body: { id: 'meanwhile' } })).toMatchObject({
      status: 409,
      body: { code: 'resetting' },
    })
    const synthetic = { body: { prompt: '', schedule: [] } }
    expect(await server.call('POST', '/api/test/agents/synthetic', synthetic)).toMatchObject({ status: 409, body: { code: 'resetting' } })
    expect(await server.get(`/api/cleanup/history/${body.id}`)).toMatchObject({ state: 'running', trigger: 'test-reset' })
    // A second reset joins the running one, and its `force` takes effect there.
    expect(await reset({ waitForCompletion: false, force: true })).toMatchObject({ status: 202, body })
    const done = await client.event('cleanup:report', ({ report }) => report.trigger === 'test-reset')
    expect(await server.get(`/api/cleanup/history/${body.id}`)).toMatchObject({ state: 'done', success: true, report: done.report })
    expect((await server.call('POST', '/api/agents', launch)).status).toBe(201)
  })

  it('during launches deletes what was launched before, and refuses the others with `resetting`', async () => {
    for (let round = 0; round < 3; round++) {
      const launches = Array.from({ length: 12 }, (_, n) =>
        server.call('POST', '/api/agents', {
          body: { type: 'command', prompt: '', configuration: { command: ['sleep', '1000'] }, ...(n % 2 && { requestId: `r${n}` }) },
        }),
      )
      await launches[round]
      const answer = await reset()
      expect(answer.body).toMatchObject({ success: true })
      for (const { status, body } of await Promise.all(launches))
        if (status !== 201) expect([status, body.code]).toEqual([409, 'resetting'])
      // The only agents that exist now were launched after the reset.
      const rows: Json[] = await server.get('/api/agents')
      expect(rows.filter((one) => one.status !== 'running' && one.status !== 'initializing')).toEqual([])
      expect((await server.get('/api/cleanup/status')).runningProcesses).toBe(rows.length)
      await reset({ force: true })
    }
  })

  it('with a namespace it leaves other namespaces and their subscriptions alone', async () => {
    const client = await server.socket()
    const one = await server.command(['sleep', '1000'], { namespace: 'one' })
    const two = await server.command(['sleep', '1000'], { namespace: 'two' })
    for (const agentId of [one, two]) client.socket.emit('subscribe', { agentId })
    await client.event('subscribed', (event) => event.agentId === two)
    expect((await reset({ namespace: 'one' })).body).toMatchObject({
      success: true,
      scope: { kind: 'namespace', id: 'one' },
      cleanedAgentsCount: 1,
    })
    expect(await server.get('/api/agents')).toMatchObject([{ id: two, status: 'running' }])
    expect(await server.get('/api/test/verify-clean-state?namespace=one')).toMatchObject({ isClean: true, activeSubscriptions: 0 })
    expect(await server.get('/api/test/verify-clean-state?namespace=two')).toMatchObject({ isClean: false, activeSubscriptions: 1 })
    expect((await server.call('POST', '/api/test/reset-environment', { headers: { 'x-ebb-namespace': 'two' } })).body).toMatchObject({
      scope: { id: 'two' },
      cleanedAgentsCount: 1,
    })
  })

  it('is refused with a bad body', async () => {
    const id = await server.command(['sleep', '1000'])
    for (const body of [{ force: 'yes' }, { timeout: -1 }, { timeout: '1s' }, { waitForCompletion: 0 }, { namespace: '' }, []])
      expect(await server.call('POST', '/api/test/reset-environment', { body })).toMatchObject({ status: 400 })
    expect(await server.get(`/api/agents/${id}/status`)).toMatchObject({ status: 'running' })
  })

  it('does not touch another living ebb on the same home', async () => {
    const other = startEbb(['exec', '--', 'sh', '-c', 'echo ready; read line; exit 7'], { home: server.home })
    await other.says('ready')
    await server.command(['sleep', '1000'])
    expect((await reset({ force: true })).body).toMatchObject({ success: true, cleanedAgentsCount: 1 })
    expect(await server.get('/api/test/verify-clean-state')).toMatchObject({ isClean: true, runningProcesses: 0 })
    expect(await server.post('/api/reaper/run')).toEqual({ found: [], released: [], left: [] })
    other.child.stdin?.write('go on\n')
    expect((await other.ended).code).toBe(7)
  })

  it('as /test/reset-database answers with the number of deleted agents', async () => {
    await server.command(['sleep', '1000'])
    await server.command(['true'])
    expect(await server.call('POST', '/api/test/reset-database')).toMatchObject({ status: 200, body: { success: true, deletedCount: 2 } })
    expect(await server.post('/api/test/reset-database')).toEqual({ success: true, deletedCount: 0 })
    // `/test/reset-database` takes the options of `/test/reset-environment`. Each option makes the reset shorter.
    for (const closeRequest of [{ force: true }, { timeout: 600 }]) {
      await ready(stubborn)
      const startedMs = performance.now()
      expect(await server.post('/api/test/reset-database', closeRequest)).toEqual({ success: true, deletedCount: 1 })
      expect(performance.now() - startedMs).toBeLessThan(5_600)
    }
  })
})

it('GET /test/verify-clean-state: each issue names what is left', async () => {
  const client = await server.socket()
  const id = await ready(['sh', '-c', 'echo x; exec sleep 1000'])
  client.socket.emit('subscribe', { agentId: id })
  await client.event('subscribed')
  const { isClean, issues, ...counts } = await server.get('/api/test/verify-clean-state')
  expect(isClean).toBe(false)
  expect(counts).toEqual({ agentCount: 1, messageCount: 2, runningProcesses: 1, activeSubscriptions: 1 })
  const text = issues.join('\n')
  expect(text).toContain(id)
  const { processes } = await server.get(`/api/agents/${id}/process`)
  expect(text).toContain(String(processes[0].pid))
  expect(text).toMatch(/subscription/)
  expect(text).toMatch(/message/)
})

it('a namespace is not clean, and its reset fails, while a process of a deleted agent runs', async () => {
  const { instanceId } = await server.get('/api/health')
  const id = await server.command(['true'], { namespace: 'one' })
  await server.get(`/api/agents/${id}/status?wait=15000`)
  expect((await server.call('DELETE', `/api/agents/${id}`)).status).toBe(204)
  const left = spawn('sleep', ['1000'], { env: { EBB_SCOPE: `${installationOf(server.home)}/${instanceId}/${id}.1` }, stdio: 'ignore' })
  const gone = once(left, 'exit')
  try {
    const seen = await server.get('/api/test/verify-clean-state?namespace=one')
    expect(seen).toMatchObject({ isClean: false, runningProcesses: 1 })
    expect(seen.issues.join('\n')).toContain(String(left.pid))
    expect((await reset({ namespace: 'one' })).body).toMatchObject({ success: false })
    expect(await server.get('/api/test/verify-clean-state?namespace=two')).toMatchObject({ isClean: true })
  } finally {
    left.kill('SIGKILL')
    await gone
  }
})

it('the routes under /test answer 404 without --test-endpoints', async () => {
  await using own = await startServer(['--test-endpoints=false'])
  const id = await own.command(['sleep', '1000'])
  for (const [method, path] of [
    ['POST', 'reset-environment'],
    ['POST', 'reset-database'],
    ['GET', 'cleanup-status'],
    ['GET', 'verify-clean-state'],
    ['POST', 'agents/synthetic'],
  ] as const)
    expect(await own.call(method, `/api/test/${path}`)).toMatchObject({ status: 404, body: { statusCode: 404, code: 'not_found' } })
  expect(Object.keys((await own.get('/api/openapi.json')).paths).filter((path) => path.includes('/test/'))).toEqual([])
  expect(await own.get(`/api/agents/${id}/status`)).toMatchObject({ status: 'running' })
  expect(existsSync(join(own.home, 'server.json'))).toBe(true)
})
