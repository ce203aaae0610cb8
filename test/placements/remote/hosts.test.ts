import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { hostname } from 'node:os'
import { expect, it } from 'vitest'
import { type Json, startServer } from '../../support/server.ts'

/** `GET /api/hosts`: this host and its runner, with their current state. */

const token = 'a-token-of-the-runner'
const own = { name: hostname(), role: 'control', status: 'well' }

it('hosts: a server without a runner lists one host', async () => {
  await using server = await startServer()
  const hosts = await server.get<Json[]>('/api/hosts')
  const { containment } = await server.get('/api/health')
  expect(hosts).toEqual([{ ...own, activeAgents: 0, containment }])
})

it('hosts: a runner is listed with its agents, and as unreachable after it was killed', async () => {
  const runner = await startServer(['--runner', '--token', token])
  await using server = await startServer(['--remote-url', runner.url, '--remote-token', token])
  const { host: name } = new URL(runner.url)
  // A runner that answers after more than two seconds is shown as unreachable and asked again, hence the poll.
  const idle = { name, role: 'runner', url: runner.url, status: 'well', activeAgents: 0 }
  await expect.poll(() => server.get('/api/hosts')).toMatchObject([own, idle])
  const id = await server.launch({ type: 'command', placement: 'remote', prompt: '', configuration: { command: ['sleep', '1000'] } })
  await expect.poll(() => server.get('/api/hosts')).toMatchObject([own, { status: 'well', activeAgents: 1 }])
  expect((await server.post(`/api/agents/${id}/stop`)).success).toBe(true)
  runner.ebb.signal('SIGKILL')
  await runner.ebb.ended
  const [here, there] = await server.get('/api/hosts')
  expect(here).toMatchObject(own)
  expect(there).toMatchObject({ status: 'unreachable', says: expect.stringContaining(runner.url) })
  expect(there).not.toHaveProperty('activeAgents')
  expect(JSON.stringify([here, there])).not.toContain(token)
})

it('hosts: a runner that refuses the token is broken, and the answer says what to do', async () => {
  await using runner = await startServer(['--runner', '--token', token])
  await using server = await startServer(['--remote-url', runner.url, '--remote-token', 'another-token'])
  const broken = { status: 'broken', says: expect.stringContaining('check the token') }
  await expect.poll(() => server.get('/api/hosts')).toMatchObject([own, broken])
})

it('hosts: a runner that never answers is unreachable after two seconds, and concurrent requests share one call', async () => {
  const urls: string[] = []
  const silent = createServer((request) => void urls.push(request.url ?? ''))
  silent.listen(0, '127.0.0.1')
  await once(silent, 'listening')
  try {
    await using server = await startServer(['--remote-url', `http://127.0.0.1:${(silent.address() as AddressInfo).port}`])
    // The server checks its settings at the start. It requests the health of the runner first, and a status when that has timed out.
    await expect.poll(() => urls.some((url) => url.startsWith('/agent/status')), { timeout: 30_000 }).toBe(true)
    expect(urls.filter((url) => url === '/health')).toHaveLength(1)
    const answers = await Promise.all(Array.from({ length: 5 }, () => server.get<Json[]>('/api/hosts')))
    for (const [, there] of answers) expect(there).toMatchObject({ status: 'unreachable', says: expect.stringContaining('within 2 s') })
    expect(urls.filter((url) => url === '/health')).toHaveLength(2)
  } finally {
    silent.closeAllConnections()
    silent.close()
  }
})
