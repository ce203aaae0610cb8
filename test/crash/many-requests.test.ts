import { spawn } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { describe, expect, it } from 'vitest'
import { root, temporaryHome } from '../support/home.ts'
import { startServer } from '../support/server.ts'

/** A process that serves requests for months must not grow. */

const megabyte = 1_048_576
const schedule = [{ delay: 3_600_000, type: 'complete' }]

interface Held {
  readonly served: number
  readonly heapUsed: number
  readonly descriptors: number
  readonly timers: number
}

describe('requests: thousands opened and closed', () => {
  it('5,000 in one process: memory, descriptors and timers stay as after the first thousand', async () => {
    const fixture = join(root, 'test/fixtures/serves-many-requests.ts')
    const flags = ['--expose-gc', '--disable-warning=ExperimentalWarning']
    const child = spawn(process.execPath, [...flags, fixture, temporaryHome()], { stdio: ['ignore', 'pipe', 'inherit'] })
    const lines = (await text(child.stdout)).trim().split('\n')
    const held = lines.slice(0, -1).map((line) => JSON.parse(line) as Held)
    expect(held.map(({ served }) => served)).toEqual([1_000, 2_000, 3_000, 4_000, 5_000])
    const [first, last] = [held.at(0), held.at(-1)]
    if (!first || !last) throw new Error('The fixture printed nothing.')
    expect(last.heapUsed - first.heapUsed).toBeLessThan(4 * megabyte)
    expect(last.descriptors).toBeLessThanOrEqual(first.descriptors + 5)
    // Twenty requests are served at a time.
    expect(last.timers).toBeLessThan(100)
    expect(JSON.parse(lines.at(-1) ?? '')).toEqual({ runningProcesses: 0, resources: {} })
  })

  it("2,500 over HTTP, some with an agent: the server's memory, descriptors and scopes do not grow", async () => {
    await using server = await startServer()
    const held = (): { rss: number; descriptors: number } => ({
      rss: Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${server.ebb.pid}/status`, 'utf8'))?.[1]) * 1_024,
      descriptors: readdirSync(`/proc/${server.ebb.pid}/fd`).length,
    })
    let next = 0
    const serve = async (until: number): Promise<void> => {
      while (next < until) {
        const id = `r-${next++}`
        expect(await server.call('POST', '/api/requests', { body: { id, timeout: 600_000 } })).toMatchObject({ status: 201 })
        if (next % 10 === 0) await server.launch({ type: 'synthetic', prompt: '', requestId: id, configuration: { schedule } })
        expect(await server.post(`/api/requests/${id}/cleanup`)).toMatchObject({ success: true, scope: { kind: 'request', id } })
      }
    }
    await Promise.all(Array.from({ length: 10 }, () => serve(1_000)))
    const before = held()
    await Promise.all(Array.from({ length: 10 }, () => serve(2_500)))
    const after = held()
    // No garbage collection is forced, so the limit leaves room for uncollected memory.
    expect(after.rss - before.rss).toBeLessThan(40 * megabyte)
    expect(after.descriptors).toBeLessThanOrEqual(before.descriptors + 20)
    expect(await server.get('/api/cleanup/status')).toMatchObject({ runningProcesses: 0, resources: {}, leaks: [] })
    expect(await server.call('POST', '/api/agents', { body: { type: 'synthetic', prompt: '', requestId: 'r-17' } })).toMatchObject({
      status: 409,
      body: { code: 'scope_closed' },
    })
  })
})
