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

/** Lost connections between a control plane and its runner. The end of an agent is either clean or reported as unknown. */

const reaping = ['--reaper-interval', '200ms', '--reaper-minimum-age', '0ms']

const launch = (server: TestServer, script: string, more: object = {}): Promise<string> =>
  server.launch({ type: 'command', placement: 'remote', prompt: '', configuration: { command: ['sh', '-c', script] }, ...more })

const firstWord = (server: TestServer, id: string): Promise<Json> => server.get(`/api/agents/${id}/messages?since=1&wait=15000`)

async function becomesEmpty(runner: TestServer, withinMs = 15_000): Promise<void> {
  const leftovers = async (): Promise<readonly string[]> => [
    ...agentProcesses(runner.home),
    ...(await runner.get<Json[]>('/api/agents')).map(({ id }) => `agent ${id}`),
    ...leftInHome(runner.home),
  ]
  await waitUntil(leftovers, withinMs, 'the runner is clean')
}

async function kill(server: TestServer): Promise<void> {
  server.ebb.signal('SIGKILL')
  await server.ebb.ended
}

/** Uses a loopback address of this test process, so that the port stays free until the runner is started again. */
const startRunner = (home = temporaryHome(), before?: TestServer): Promise<TestServer> =>
  startServer(['--runner', '--host', ownAddress], { home, ...(before && { port: new URL(before.url).port }) })

describe('remote: a runner', () => {
  it('that is killed makes its agents unknown: stop and delete answer 409, and its next start resolves them', async () => {
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

  it('that is killed and restarted has ended its agents, and the control plane learns it without a request', async () => {
    const home = temporaryHome()
    let runner = await startRunner(home)
    await using server = await startServer(['--remote-url', runner.url, ...reaping])
    const id = await launch(server, 'echo here; sleep 1000')
    await firstWord(server, id)
    await kill(runner)
    // While the runner cannot be reached, the agent must not be reported as ended.
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

  it('that shuts down ends its agents and notifies its clients', async () => {
    const runner = await startRunner()
    await using server = await startServer(['--remote-url', runner.url, ...reaping])
    const id = await launch(server, 'echo here; sleep 1000')
    await firstWord(server, id)
    await runner.stop()
    expect(agentProcesses(runner.home)).toEqual([])
    // No request stopped the agent. Its end is unknown, unless the runner reported the end before the runner exited.
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

  it("a runner of another installation at the same address is not trusted about this installation's agents", async () => {
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

describe('remote: a control plane', () => {
  it('that is killed ends its agents by the lost connection, and its sentinel corrects the ledger', async () => {
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

describe('remote: a call to a runner', () => {
  it.each(['loses', 'cuts'] as const)(
    'that starts an agent and %s its answer is rolled back with proof',
    { timeout: 120_000 },
    async (way) => {
      await using runner = await startServer(['--runner'])
      await using proxy = await FlakyProxy.before(runner.url)
      await using server = await startServer(['--remote-url', proxy.url])
      proxy[way] = /^POST \/agent\/stream/
      const body = { type: 'command', placement: 'remote', prompt: '', configuration: { command: ['sleep', '1000'] } }
      const answering = server.call('POST', '/api/agents', { body }).catch((error: unknown) => error as Error)
      if (way === 'loses') {
        await waitUntil(() => agentProcesses(runner.home).length > 0, 15_000, 'the agent runs, though its launch got no answer')
        // The reset closes the scope of the agent, so it does not wait for the deadline of the launch.
        expect(await server.post('/api/test/reset-environment', { timeout: 2_000 })).toMatchObject({ success: true })
      }
      await answering
      expect(proxy.lost).toBe(1)
      await becomesEmpty(runner)
      expect(await server.get('/api/cleanup/status')).toMatchObject({ agentCount: 0, stuck: [], leaks: [] })
    },
  )

  it.each(['loses', 'cuts'] as const)('that stops an agent and %s its answer has stopped it, and the end is observed', async (way) => {
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

  it('that streams an agent and is cut ends the agent, with an unknown exit', async () => {
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

  it('that is half-open misses the end of the agent, and asks the runner for it', { timeout: 120_000 }, async () => {
    await using runner = await startServer(['--runner'])
    await using proxy = await FlakyProxy.before(runner.url)
    await using server = await startServer(['--remote-url', proxy.url])
    const go = `${temporaryHome()}/go`
    const id = await launch(server, `echo here; until [ -e '${go}' ]; do sleep 0.05; done; exit 7`)
    await firstWord(server, id)
    proxy.freezeAll()
    writeFileSync(go, '')
    await server.get(`/api/agents/${id}/status?wait=30000`).catch(() => {}) // The status request may time out; `waitUntil` waits longer.
    await waitUntil(async () => (await server.get(`/api/agents/${id}`)).status === 'failed', 40_000, 'the end of the agent is known')
    expect(await server.get(`/api/agents/${id}`)).toMatchObject({ exitCode: 7 })
  })

  it('that is never answered leaves the agent unknown, and the reaper ends it when the runner answers again', {
    timeout: 120_000,
  }, async () => {
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

/** Sends one request and prints the answer. */
const askProgram = `
const [method, url, body] = process.argv.slice(1)
const json = body === 'null' ? {} : { body, headers: { 'content-type': 'application/json' } }
process.stdout.write(await (await fetch(url, { method, ...json })).text())
`

describe('remote: the network to the runner', () => {
  needs('root', 'ip')

  it('leaves both sides clean when it is cut and restored', { timeout: 180_000 }, async () => {
    using network = new CutNetwork()
    const token = 'a-token-of-the-runner'
    const runner = await startServer(['--runner', '--host', network.address, '--token', token])
    const there = network.there([])
    const server = await startServer(['--remote-url', runner.url, '--remote-token', token, ...reaping], { through: there })
    try {
      // The control plane listens inside the second network, which this process cannot reach. So a process in that network sends the
      // requests.
      const ask = (method: string, path: string, body?: object): Json => {
        const words = [nodeProgram, '--input-type=module', '-e', askProgram, '--', method, server.url + path, JSON.stringify(body ?? null)]
        const [program = '', ...rest] = network.there(words)
        return JSON.parse(execFileSync(program, rest, { encoding: 'utf8' }))
      }
      const command = ['sh', '-c', 'echo here; sleep 1000']
      const { id } = ask('POST', '/api/agents', { type: 'command', placement: 'remote', prompt: '', configuration: { command } })
      ask('GET', `/api/agents/${id}/messages?since=1&wait=15000`)
      network.cut()
      await waitUntil(() => agentProcesses(runner.home), 45_000, 'the runner ends the agent of the lost control plane')
      expect(ask('GET', `/api/agents/${id}`)).toMatchObject({ status: 'running' })
      network.mend()
      await waitUntil(() => ask('GET', `/api/agents/${id}`).status === 'failed', 60_000, 'the control plane knows that the agent has ended')
    } finally {
      await server.stop()
      await runner.stop()
    }
  })
})
