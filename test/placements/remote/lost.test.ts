import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { CutNetwork, ownAddress } from '../../support/cut-network.ts'
import { FlakyProxy } from '../../support/flaky-proxy.ts'
import { nodeProgram, temporaryHome } from '../../support/home.ts'
import { leftInHome } from '../../support/ledger-file.ts'
import { needs } from '../../support/real.ts'
import { type Json, startServer, type TestServer } from '../../support/server.ts'
import { agentProcesses } from '../../support/shared-server.ts'
import { waitUntil } from '../../support/world.ts'

/** What is between a control plane and its runner gets lost: the end is clean, or honestly not known. */

const reaping = ['--reaper-interval', '200ms', '--reaper-minimum-age', '0ms']

const launch = (server: TestServer, script: string, more: object = {}): Promise<string> =>
  server.launch({ type: 'command', placement: 'remote', prompt: '', configuration: { command: ['sh', '-c', script] }, ...more })

const firstWord = (server: TestServer, id: string): Promise<Json> => server.get(`/api/agents/${id}/messages?since=1&wait=15000`)

async function becomesEmpty(runner: TestServer, withinMs = 15_000): Promise<void> {
  const look = async (): Promise<readonly string[]> => [
    ...agentProcesses(runner.home),
    ...(await runner.get<Json[]>('/api/agents')).map((one) => `agent ${one.id}`),
    ...leftInHome(runner.home),
  ]
  await waitUntil(look, withinMs, 'the runner is clean')
}

async function kill(server: TestServer): Promise<void> {
  server.ebb.signal('SIGKILL')
  await server.ebb.ended
}

/** Where it is started again nobody else has taken the port meanwhile. */
const startRunner = (home = temporaryHome(), before?: TestServer): Promise<TestServer> =>
  startServer(['--runner', '--host', ownAddress], { home, ...(before && { port: new URL(before.url).port }) })

describe('a runner', () => {
  it('that is killed makes its agents unknown: stop and delete answer 409, and the next one there settles it', async () => {
    const home = temporaryHome()
    let runner = await startRunner(home)
    const { url } = runner
    await using server = await startServer(['--remote-url', url])
    const [id, other] = [await launch(server, 'echo here; sleep 1000'), await launch(server, 'sleep 1000')]
    await firstWord(server, id)
    await kill(runner)
    const stopped = await server.call('POST', `/api/agents/${id}/stop`, { body: { grace: 100 } })
    expect(stopped).toMatchObject({ status: 409, body: { code: 'not_released', details: { success: false } } })
    expect(stopped.body.message).toContain(`${url} cannot be reached`)
    expect((await server.call('DELETE', `/api/agents/${other}?timeout=500`)).status).toBe(409)
    expect(await server.get(`/api/agents/${id}`)).toMatchObject({ status: 'stuck' })
    expect((await server.get('/api/cleanup/status')).stuck).not.toEqual([])
    runner = await startRunner(home, runner)
    try {
      expect(await server.post(`/api/agents/${id}/stop`)).toMatchObject({ success: true })
      expect((await server.call('DELETE', `/api/agents/${other}`)).status).toBe(204)
      expect(await server.get(`/api/agents/${id}`)).toMatchObject({ status: 'terminated' })
      await becomesEmpty(runner)
    } finally {
      await runner.stop()
    }
  })

  it('that is killed and comes back has ended its agents, and the control plane learns it by itself', async () => {
    const home = temporaryHome()
    let runner = await startRunner(home)
    await using server = await startServer(['--remote-url', runner.url, ...reaping])
    const id = await launch(server, 'echo here; sleep 1000')
    await firstWord(server, id)
    await kill(runner)
    // Nobody says that it has ended while nobody knows.
    expect(await server.get(`/api/agents/${id}`)).toMatchObject({ status: 'running' })
    runner = await startRunner(home, runner)
    try {
      await server.get(`/api/agents/${id}/status?wait=20000`)
      expect(await server.get(`/api/agents/${id}`)).toMatchObject({ status: 'failed' })
      await becomesEmpty(runner)
    } finally {
      await runner.stop()
    }
  })

  it('that leaves in order tells its clients, and its agents have ended', async () => {
    const runner = await startRunner()
    await using server = await startServer(['--remote-url', runner.url, ...reaping])
    const id = await launch(server, 'echo here; sleep 1000')
    await firstWord(server, id)
    await runner.stop()
    expect(agentProcesses(runner.home)).toEqual([])
    // Nobody here stopped it, and who is not there any more cannot be asked: it is unknown, unless the runner still said so itself.
    expect(['terminated', 'completed']).not.toContain((await server.get(`/api/agents/${id}`)).status)
    const again = await startRunner(runner.home, runner)
    try {
      await server.get(`/api/agents/${id}/status?wait=20000`)
      await waitUntil(async () => (await server.get(`/api/agents/${id}`)).status === 'failed', 20_000, 'the agent has ended')
      expect(await server.get(`/api/agents/${id}`)).toMatchObject({ error: { message: 'The agent was stopped.' } })
    } finally {
      await again.stop()
    }
  })

  it('of another installation at the same address knows nothing of ours, and is not believed', async () => {
    let runner = await startRunner()
    await using server = await startServer(['--remote-url', runner.url])
    const id = await launch(server, 'echo here; sleep 1000')
    await firstWord(server, id)
    await kill(runner)
    await using other = await startRunner(temporaryHome(), runner)
    const answer = await server.call('POST', `/api/agents/${id}/stop`, { body: { force: true } })
    expect(answer).toMatchObject({ status: 409, body: { message: expect.stringMatching(/another runner/) } })
    await other.stop()
    runner = await startRunner(runner.home, runner)
    try {
      expect(await server.post(`/api/agents/${id}/stop`)).toMatchObject({ success: true })
    } finally {
      await runner.stop()
    }
  })
})

describe('a control plane', () => {
  it('that is killed has stopped its agents by its hang-up, and its sentinel puts the books right', async () => {
    await using runner = await startServer(['--runner'])
    const server = await startServer(['--remote-url', runner.url])
    const id = await launch(server, 'echo here; setsid sleep 1000 & sleep 1000')
    await firstWord(server, id)
    await kill(server)
    await becomesEmpty(runner)
    await using again = await startServer(['--remote-url', runner.url], { home: server.home })
    expect(await again.get(`/api/agents/${id}`)).toMatchObject({ status: 'failed', error: { name: 'supervisor_lost' } })
    expect(await again.get('/api/cleanup/status')).toMatchObject({ stuck: [], leaks: [], runningProcesses: 0 })
  })
})

describe('a call to a runner', () => {
  it.each(['loses', 'cuts'] as const)('that starts an agent and %s its answer is taken back, proven', { timeout: 120_000 }, async (way) => {
    await using runner = await startServer(['--runner'])
    await using proxy = await FlakyProxy.before(runner.url)
    await using server = await startServer(['--remote-url', proxy.url])
    proxy[way] = /^POST \/agent\/stream/
    const body = { type: 'command', placement: 'remote', prompt: '', configuration: { command: ['sleep', '1000'] } }
    const answering = server.call('POST', '/api/agents', { body }).catch((error: unknown) => error as Error)
    if (way === 'loses') {
      await waitUntil(() => agentProcesses(runner.home).length > 0, 15_000, 'the agent runs though nobody heard of it')
      // Whoever asked does not wait for the budget of the launch: what it opened is closed.
      expect(await server.post('/api/test/reset-environment', { timeout: 2_000 })).toMatchObject({ success: true })
    }
    await answering
    expect(proxy.lost).toBe(1)
    await becomesEmpty(runner)
    expect(await server.get('/api/cleanup/status')).toMatchObject({ agentCount: 0, stuck: [], leaks: [] })
  })

  it.each(['loses', 'cuts'] as const)('that stops an agent and %s its answer has stopped it, and that is seen', async (way) => {
    await using runner = await startServer(['--runner'])
    await using proxy = await FlakyProxy.before(runner.url)
    await using server = await startServer(['--remote-url', proxy.url])
    const id = await launch(server, 'echo here; sleep 1000')
    await firstWord(server, id)
    proxy[way] = /^POST \/agent\/stop/
    expect(await server.post(`/api/agents/${id}/stop`, { grace: 500 })).toMatchObject({ success: true })
    expect(proxy.lost).toBeGreaterThan(0)
    await becomesEmpty(runner)
  })

  it('that streams an agent and is cut has stopped it; the agent has ended, and nobody saw how', async () => {
    await using runner = await startServer(['--runner'])
    await using proxy = await FlakyProxy.before(runner.url)
    await using server = await startServer(['--remote-url', proxy.url])
    const id = await launch(server, 'echo here; sleep 1000')
    await firstWord(server, id)
    proxy.cutAll()
    await server.get(`/api/agents/${id}/status?wait=20000`)
    expect(await server.get(`/api/agents/${id}`)).toMatchObject({ status: 'failed' })
    await becomesEmpty(runner)
  })

  it('that is half-open loses the end of the agent, and asks for it', { timeout: 120_000 }, async () => {
    await using runner = await startServer(['--runner'])
    await using proxy = await FlakyProxy.before(runner.url)
    await using server = await startServer(['--remote-url', proxy.url])
    const go = `${temporaryHome()}/go`
    const id = await launch(server, `echo here; until [ -e '${go}' ]; do sleep 0.05; done; exit 7`)
    await firstWord(server, id)
    proxy.freezeAll()
    writeFileSync(go, '')
    await server.get(`/api/agents/${id}/status?wait=30000`).catch(() => {})
    await waitUntil(async () => (await server.get(`/api/agents/${id}`)).status === 'failed', 40_000, 'the end is known')
    expect(await server.get(`/api/agents/${id}`)).toMatchObject({ exitCode: 7 })
  })

  it('that is never answered leaves the agent unknown, and the reaper ends it when somebody answers', { timeout: 120_000 }, async () => {
    await using runner = await startServer(['--runner'])
    await using proxy = await FlakyProxy.before(runner.url)
    await using server = await startServer(['--remote-url', proxy.url, ...reaping])
    const id = await launch(server, 'echo here; sleep 1000')
    await firstWord(server, id)
    proxy.isDeaf = true
    const answer = await server.call('POST', `/api/agents/${id}/stop`, { body: { force: true } })
    expect(answer).toMatchObject({ status: 409, body: { message: expect.stringMatching(/did not answer|got no answer in time/) } })
    expect(agentProcesses(runner.home)).not.toEqual([])
    proxy.isDeaf = false
    await waitUntil(async () => (await server.get(`/api/agents/${id}`)).status === 'terminated', 30_000, 'the reaper has ended it')
    await becomesEmpty(runner)
  })
})

/** Asks, and says what was answered. */
const askProgram = `
const [method, url, body] = process.argv.slice(1)
const json = body === 'null' ? {} : { body, headers: { 'content-type': 'application/json' } }
process.stdout.write(await (await fetch(url, { method, ...json })).text())
`

describe('a cable to the runner', () => {
  needs('root', 'ip')

  it('that is pulled leaves both sides clean once it is back', { timeout: 180_000 }, async () => {
    using network = new CutNetwork()
    const token = 'a-token-of-the-runner'
    const runner = await startServer(['--runner', '--host', network.address, '--token', token])
    const there = network.there([])
    const server = await startServer(['--remote-url', runner.url, '--remote-token', token, ...reaping], { through: there })
    try {
      // The control plane listens at the other end, where this test is not.
      const ask = (method: string, path: string, body?: object): Json => {
        const words = [nodeProgram, '--input-type=module', '-e', askProgram, '--', method, server.url + path, JSON.stringify(body ?? null)]
        const [program = '', ...rest] = network.there(words)
        return JSON.parse(execFileSync(program, rest, { encoding: 'utf8' }))
      }
      const command = ['sh', '-c', 'echo here; sleep 1000']
      const { id } = ask('POST', '/api/agents', { type: 'command', placement: 'remote', prompt: '', configuration: { command } })
      ask('GET', `/api/agents/${id}/messages?since=1&wait=15000`)
      network.cut()
      await waitUntil(() => agentProcesses(runner.home), 45_000, 'the runner has stopped the agent of one who is gone')
      expect(ask('GET', `/api/agents/${id}`)).toMatchObject({ status: 'running' })
      network.mend()
      await waitUntil(() => ask('GET', `/api/agents/${id}`).status === 'failed', 60_000, 'the control plane has learnt it')
    } finally {
      await server.stop()
      await runner.stop()
    }
  })
})
