import { hostname } from 'node:os'
import { describe, expect, it } from 'vitest'
import { installationOf } from '../../support/ledger-file.ts'
import { bindMount } from '../../support/mounts.ts'
import { needs } from '../../support/real.ts'
import { type Json, startServer, type TestServer } from '../../support/server.ts'
import { useServer } from '../../support/shared-server.ts'
import { processesOfHome } from '../../support/world.ts'

const server = useServer(['--log-level', 'info'])

interface Series {
  readonly name: string
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

/** Parses the text format of Prometheus as strictly as Prometheus does. */
async function scrape(from: TestServer = server): Promise<{ types: ReadonlyMap<string, string>; series: readonly Series[] }> {
  const { status, headers, body } = await from.call<string>('GET', '/metrics')
  expect([status, headers.get('content-type')]).toEqual([200, 'text/plain; version=0.0.4; charset=utf-8'])
  const types = new Map<string, string>()
  const helped = new Set<string>()
  const series: Series[] = []
  for (const line of body.trimEnd().split('\n')) {
    const [, about, name = '', rest = ''] = /^# (HELP|TYPE) (\S+) (.+)$/.exec(line) ?? []
    if (about === 'TYPE') types.set(name, rest)
    else if (about === 'HELP') helped.add(name)
    else if (line !== '') series.push(sample(line))
  }
  expect([...types.keys()].filter((name) => !helped.has(name))).toEqual([])
  const keys = series.map(({ name, labels }) => `${name}${JSON.stringify(labels)}`)
  expect(new Set(keys).size).toBe(keys.length)
  return { types, series }
}

function sample(line: string): Series {
  const parts = /^([a-z_:][a-z0-9_:]*)(?:\{(.*)\})? (\S+)$/i.exec(line)
  expect(parts, line).not.toBeNull()
  const labels = [...(parts?.[2] ?? '').matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map(([, key = '', value = '']) => [key, value])
  const value = Number(parts?.[3])
  // The event loop lag is NaN when two readings are too close together.
  if (!line.startsWith('nodejs_eventloop_lag')) expect(value, line).not.toBeNaN()
  return { name: parts?.[1] ?? '', labels: Object.fromEntries(labels), value }
}

/** Returns the sum of the time series that have this name and these labels. */
async function count(name: string, labels: Readonly<Record<string, string>> = {}, from = server): Promise<number> {
  const { series } = await scrape(from)
  return series
    .filter((one) => one.name === name && Object.entries(labels).every(([key, value]) => one.labels[key] === value))
    .reduce((sum, { value }) => sum + value, 0)
}

const ended = (id: string): Promise<Json> => server.get(`/api/agents/${id}/status?wait=15000`)
const sleeping = (): Promise<string> => server.command(['sleep', '1000'])

describe('GET /metrics', () => {
  it('has the public names, types and labels, and the metrics of the process', async () => {
    await server.post(`/api/agents/${await sleeping()}/stop`)
    await sleeping()
    const { types, series } = await scrape()
    expect(Object.fromEntries([...types].filter(([name]) => name.startsWith('ebb_')))).toEqual({
      ebb_cleanup_total: 'counter',
      ebb_cleanup_duration_seconds: 'histogram',
      ebb_cleanup_consecutive_failures: 'gauge',
      ebb_ladder_steps_total: 'counter',
      ebb_resources: 'gauge',
      ebb_orphans_found_total: 'counter',
      ebb_probe_unknown_total: 'counter',
      ebb_archived_bytes_total: 'counter',
      ebb_freed_bytes_total: 'counter',
      ebb_messages_total: 'counter',
    })
    const labels = (name: string): string[] => Object.keys(series.find((one) => one.name === name)?.labels ?? {}).toSorted()
    expect(labels('ebb_cleanup_total')).toEqual(['outcome', 'trigger'])
    expect(labels('ebb_ladder_steps_total')).toEqual(['kind', 'step'])
    expect(labels('ebb_resources')).toEqual(['kind', 'state'])
    for (const name of ['process_cpu_seconds_total', 'process_resident_memory_bytes', 'process_open_fds', 'process_start_time_seconds'])
      expect(series.find((one) => one.name === name)?.value, name).toBeGreaterThan(0)
  })

  it('counts every close once, by its trigger, with its duration', async () => {
    const closes = ['completed', 'terminated', 'deleted', 'request-finished', 'test-reset']
    const total = (trigger: string): Promise<number> => count('ebb_cleanup_total', { trigger, outcome: 'success' })
    const before = await Promise.all(closes.map(total))
    const durations = await count('ebb_cleanup_duration_seconds_count')
    await ended(await server.command(['true']))
    await server.post(`/api/agents/${await sleeping()}/stop`)
    await server.call('DELETE', `/api/agents/${await sleeping()}`)
    for (const _ of ['one', 'two']) await server.command(['sleep', '1000'], { requestId: 'r' })
    await server.post('/api/requests/r/cleanup')
    await server.post('/api/test/reset-environment')
    const after = await Promise.all(closes.map(total))
    expect(after.map((value, index) => value - (before[index] ?? 0))).toEqual([1, 1, 1, 1, 1])
    expect((await count('ebb_cleanup_duration_seconds_count')) - durations).toBe(5)
    expect(await count('ebb_cleanup_duration_seconds_bucket', { le: '+Inf' })).toBe(await count('ebb_cleanup_duration_seconds_count'))
    expect(await count('ebb_cleanup_duration_seconds_sum')).toBeLessThan(60)
    expect(await count('ebb_cleanup_consecutive_failures')).toBe(0)
  })

  it('counts the steps of the ladder', async () => {
    const kills = (): Promise<number> => count('ebb_ladder_steps_total', { kind: 'process-tree', step: 'kill' })
    const all = (): Promise<number> => count('ebb_ladder_steps_total')
    const [killsBefore, allBefore] = [await kills(), await all()]
    const id = await server.command(['sh', '-c', 'trap "" INT TERM; echo up; while :; do sleep 1000; done'])
    await server.get(`/api/agents/${id}/messages?since=1&wait=15000`)
    const report = await server.post(`/api/agents/${id}/stop`, { grace: 100 })
    const steps = report.resources.flatMap((one: Json) => one.steps.map(({ step }: Json) => step))
    expect(steps).toContain('kill')
    expect((await kills()) - killsBefore).toBe(1)
    expect((await all()) - allBefore).toBe(steps.length)
  })

  it('shows the open resources of the ledger, as /cleanup/status does', async () => {
    for (const _ of ['one', 'two']) await sleeping()
    const { resources } = await server.get('/api/cleanup/status')
    for (const [kind, states] of Object.entries<Record<string, number>>(resources))
      for (const [state, held] of Object.entries(states)) expect(await count('ebb_resources', { kind, state })).toBe(held)
    expect(await count('ebb_resources', { kind: 'process-tree', state: 'held' })).toBe(2)
    expect(await count('ebb_resources', { kind: 'log', state: 'held' })).toBe(4)
    await server.post('/api/cleanup', { scope: 'all' })
    expect(await count('ebb_resources')).toBe(0)
  })

  it('counts saved messages, and the bytes of logs archived and deleted', async () => {
    const [messages, archived, freed] = await Promise.all(
      ['ebb_messages_total', 'ebb_archived_bytes_total', 'ebb_freed_bytes_total'].map((name) => count(name)),
    )
    const id = await server.command(['seq', '1', '1000'])
    await ended(id)
    expect((await count('ebb_messages_total')) - (messages ?? 0)).toBe((await server.get(`/api/agents/${id}`)).session.messageCount)
    // `seq 1 1000` writes 9 + 90 · 2 + 900 · 3 + 4 digits and one newline after each of the 1,000 numbers.
    expect((await count('ebb_archived_bytes_total')) - (archived ?? 0)).toBe(3_893)
    const living = await server.command(['sh', '-c', 'echo 123456789; exec sleep 1000'])
    await server.get(`/api/agents/${living}/messages?since=1&wait=15000`)
    await server.call('DELETE', `/api/agents/${living}`)
    expect((await count('ebb_freed_bytes_total')) - (freed ?? 0)).toBe(10)
    await server.call('DELETE', `/api/agents/${id}`)
    expect((await count('ebb_freed_bytes_total')) - (freed ?? 0)).toBe(3_903)
  })

  describe('with a resource that cannot be released', () => {
    needs('root')

    it('counts the failures in a row until a close succeeds; /health stays 200', async () => {
      const id = await sleeping()
      const [log] = (await server.get(`/api/agents/${id}/resources`)).filter((one: Json) => one.kind === 'log')
      {
        // A mount point can be neither moved nor removed (rename(2), unlink(2): EBUSY), not even by root.
        using _ = bindMount('/dev/null', log.name)
        for (const failures of [1, 2]) {
          expect((await server.call('DELETE', `/api/agents/${id}?timeout=300`)).status).toBe(409)
          expect(await count('ebb_cleanup_consecutive_failures')).toBe(failures)
        }
        expect(await count('ebb_cleanup_total', { trigger: 'deleted', outcome: 'failure' })).toBe(2)
        expect(await count('ebb_resources', { kind: 'log', state: 'stuck' })).toBe(1)
        expect(await server.call('GET', '/api/health')).toMatchObject({ status: 200, body: { status: 'ok', stuck: 1 } })
      }
      expect((await server.call('DELETE', `/api/agents/${id}`)).status).toBe(204)
      expect(await count('ebb_cleanup_consecutive_failures')).toBe(0)
      expect(await server.get('/api/health')).toMatchObject({ stuck: 0 })
    })
  })
})

describe('GET /health', () => {
  it('identifies the server and reports its state', async () => {
    const before = await server.get('/api/health')
    expect(before).toEqual({
      status: 'ok',
      pid: server.ebb.pid,
      uptime: expect.any(Number),
      memoryUsage: expect.objectContaining({ rss: expect.any(Number), heapUsed: expect.any(Number), heapTotal: expect.any(Number) }),
      activeAgents: 0,
      totalAgents: 0,
      databaseStatus: 'connected',
      startedAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      port: Number(new URL(server.url).port),
      nodeVersion: expect.stringMatching(/^v\d+\.\d+\.\d+$/),
      instanceId: expect.stringMatching(/./),
      containment: expect.toBeOneOf(['cgroup', 'subreaper', 'scan']),
      stuck: 0,
      version: expect.stringMatching(/^\d+\.\d+\.\d+/),
      host: { name: hostname(), platform: process.platform },
      placements: expect.arrayContaining(['process']),
      testEndpoints: true,
      runner: false,
    })
    // The uptime is in seconds, and agrees with `startedAt`.
    expect(Math.abs(Date.parse(before.startedAt) + before.uptime * 1_000 - Date.now())).toBeLessThan(30_000)
    await ended(await server.command(['true']))
    const id = await sleeping()
    const after = await server.get('/api/health')
    expect(after).toMatchObject({ activeAgents: 1, totalAgents: 2, pid: before.pid, instanceId: before.instanceId })
    expect(after.uptime).toBeGreaterThan(before.uptime)
    await server.call('DELETE', `/api/agents/${id}`)
    expect(await server.get('/api/health')).toMatchObject({ activeAgents: 0, totalAgents: 1 })
  })

  it('is 503 when the sentinel is lost; running agents can still be ended', async () => {
    await using own = await startServer()
    const id = await own.command(['sleep', '1000'])
    const health = (): Promise<Json> => own.call('GET', '/api/health')
    const killed = new Set<number>()
    const until = performance.now() + 10_000
    let answer = await health()
    // The sentinel is restarted again and again, with growing pauses.
    while (answer.status === 200 && performance.now() < until) {
      const sentinel = sentinels(own).find((pid) => !killed.has(pid))
      if (sentinel !== undefined) {
        killed.add(sentinel)
        process.kill(sentinel, 'SIGKILL')
      }
      answer = await health()
    }
    expect(answer).toMatchObject({
      status: 503,
      body: { status: 'broken', databaseStatus: 'connected', activeAgents: 1, problems: [expect.stringContaining('sentinel')] },
    })
    expect(await own.call('POST', `/api/agents/${id}/stop`)).toMatchObject({ status: 200, body: { success: true } })
  })
})

/** The pids of the sentinels of this home: its processes except the server and agents. */
function sentinels({ home, ebb }: TestServer): readonly number[] {
  return processesOfHome(home, installationOf(home))
    .filter(({ pid, environ }) => pid !== ebb.pid && !`\0${environ}`.includes('\0EBB_SCOPE='))
    .map(({ pid }) => pid)
}

describe('the log of the server', () => {
  it('is one JSON object per line; lines of a close have its scope and trigger', async () => {
    await using own = await startServer(['--log-level', 'info'])
    const ofRequest = await own.command(['sleep', '1000'], { requestId: 'r' })
    const [stopped, deleted, reset, left] = [
      await own.command(['sleep', '1000']),
      await own.command(['sleep', '1000']),
      await own.command(['sleep', '1000'], { namespace: 'n' }),
      await own.command(['sleep', '1000']),
    ]
    const completed = await own.command(['true'])
    await own.get(`/api/agents/${completed}/status?wait=15000`)
    await own.post(`/api/agents/${stopped}/stop`)
    await own.call('DELETE', `/api/agents/${deleted}`)
    await own.post('/api/requests/r/cleanup')
    await own.post('/api/test/reset-environment', { namespace: 'n' })
    await own.stop()
    const lines = own.ebb
      .errorOutput()
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as Json)
    for (const line of lines)
      expect(line).toMatchObject({
        level: expect.any(Number),
        time: expect.any(Number),
        pid: own.ebb.pid,
        msg: expect.stringMatching(/^[A-Z]/),
      })
    const cleanups = lines.filter(({ msg }) => msg.startsWith('Cleanup:'))
    expect(cleanups.filter(({ scope, trigger }) => typeof scope !== 'string' || typeof trigger !== 'string')).toEqual([])
    const closes = new Map(cleanups.map(({ scope, trigger }) => [scope, trigger]))
    expect([completed, stopped, deleted, ofRequest, reset, left].map((id) => closes.get(id))).toEqual([
      'completed',
      'terminated',
      'deleted',
      'request-finished',
      'test-reset',
      'process-exit',
    ])
    // Every released resource is named with its kind.
    const released = cleanups.filter(({ scope, msg }) => scope === stopped && msg.includes('released'))
    expect(released.map(({ kind }) => kind).toSorted()).toEqual(['log', 'log', 'process-tree', 'temp-folder'])
  })

  it('is empty at the default level when nothing goes wrong', async () => {
    await using own = await startServer()
    await own.post(`/api/agents/${await own.command(['sleep', '1000'])}/stop`)
    await own.call('GET', '/api/agents/x')
    await own.stop()
    expect(own.ebb.errorOutput()).toBe('')
  })
})
