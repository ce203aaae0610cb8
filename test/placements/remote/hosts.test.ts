import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { hostname } from 'node:os'
import { expect, it } from 'vitest'
import { type Json, startServer } from '../../support/server.ts'

/** `GET /api/hosts`: this host and its runner, as they are seen now. */

const token = 'a-token-of-the-runner'
const own = { name: hostname(), role: 'control', status: 'well' }

it('a server without a runner has one host', async () => {
  await using server = await startServer()
  const hosts = await server.get<Json[]>('/api/hosts')
  const { containment } = await server.get('/api/health')
  expect(hosts).toEqual([{ ...own, activeAgents: 0, containment }])
})

it('a runner is told with its agents, and as unreachable when it was killed', async () => {
  const runner = await startServer(['--runner', '--token', token])
  await using server = await startServer(['--remote-url', runner.url, '--remote-token', token])
  const { host: name } = new URL(runner.url)
  // One that takes longer than two seconds for its answer is unreachable, and asked again.
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

it('a runner that does not let us in is broken, with what to do', async () => {
  await using runner = await startServer(['--runner', '--token', token])
  await using server = await startServer(['--remote-url', runner.url, '--remote-token', 'another-token'])
  const broken = { status: 'broken', says: expect.stringContaining('check the token') }
  await expect.poll(() => server.get('/api/hosts')).toMatchObject([own, broken])
})

it('a runner that takes calls and never answers is unreachable after two seconds, and asked once for all who ask meanwhile', async () => {
  const asked: string[] = []
  const silent = createServer((request) => void asked.push(request.url ?? ''))
  silent.listen(0, '127.0.0.1')
  await once(silent, 'listening')
  try {
    await using server = await startServer(['--remote-url', `http://127.0.0.1:${(silent.address() as AddressInfo).port}`])
    // The settings are tried beside the start: first the health, and when nobody waits for it any more, a status.
    await expect.poll(() => asked.some((url) => url.startsWith('/agent/status')), { timeout: 30_000 }).toBe(true)
    expect(asked.filter((url) => url === '/health')).toHaveLength(1)
    const answers = await Promise.all(Array.from({ length: 5 }, () => server.get<Json[]>('/api/hosts')))
    for (const [, there] of answers) expect(there).toMatchObject({ status: 'unreachable', says: expect.stringContaining('within 2 s') })
    expect(asked.filter((url) => url === '/health')).toHaveLength(2)
  } finally {
    silent.closeAllConnections()
    silent.close()
  }
})
