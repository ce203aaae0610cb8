import { readdirSync, readFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ebb, temporaryHome } from '../../support/home.ts'
import { leftInHome } from '../../support/ledger-file.ts'
import { type Json, startServer, type TestServer } from '../../support/server.ts'
import { agentProcesses } from '../../support/shared-server.ts'
import { waitUntil } from '../../support/world.ts'

/** The placement `remote`, with two real servers: a runner, and a control plane that runs its agents there. */

const token = 'a-token-of-the-runner'
let runner: TestServer
let server: TestServer

beforeAll(async () => {
  runner = await startServer(['--runner', '--token', token])
  server = await startServer(['--remote-url', runner.url, '--remote-token', token])
})

afterAll(async () => {
  await server.stop()
  await runner.stop()
})

const launch = (script: string, more: object = {}): Promise<string> =>
  server.launch({ type: 'command', placement: 'remote', prompt: '', configuration: { command: ['sh', '-c', script] }, ...more })

const ended = async (id: string): Promise<Json> => {
  await server.get(`/api/agents/${id}/status?wait=20000`)
  return await server.get(`/api/agents/${id}`)
}

const contents = async (id: string): Promise<string[]> =>
  (await server.get<Json[]>(`/api/agents/${id}/messages?since=1`)).map(({ content }) => content)

const runnerCall = async (path: string): Promise<Json> =>
  await (await fetch(runner.url + path, { headers: { authorization: `Bearer ${token}` } })).json()

async function runnerBecomesEmpty(): Promise<void> {
  const leftovers = async (): Promise<readonly string[]> => [
    ...agentProcesses(runner.home),
    ...((await runnerCall('/api/agents')) as Json[]).map((agent) => `agent ${agent.id}`),
    ...leftInHome(runner.home),
  ]
  await waitUntil(leftovers, 15_000, 'the runner is clean')
}

describe('remote: an agent at a runner', () => {
  it('has all its output as messages here, in order', async () => {
    const id = await launch('i=0; while [ $i -lt 2000 ]; do echo "line $i"; i=$((i+1)); done; printf "a\\rb\\n"; printf unfinished')
    expect(await ended(id)).toMatchObject({ status: 'completed', exitCode: 0, placement: 'remote' })
    expect(await contents(id)).toEqual([...Array.from({ length: 2_000 }, (_, index) => `line ${index}`), 'a\rb', 'unfinished'])
    await runnerBecomesEmpty()
  })

  it('reads its prompt, and has its environment and working folder there', async () => {
    const folder = temporaryHome()
    const id = await server.launch({
      type: 'command',
      placement: 'remote',
      prompt: 'the prompt\n',
      configuration: { command: ['sh', '-c', 'cat; echo "$GREETING"; pwd'], env: { GREETING: 'hello' }, workingDirectory: folder },
    })
    await ended(id)
    expect(await contents(id)).toEqual(['the prompt', 'hello', folder])
  })

  it.each([
    ['exit 7', { status: 'failed', exitCode: 7, error: { name: 'exit_code' } }],
    ['kill -9 $$', { status: 'failed', signal: 'SIGKILL' }],
    ['true', { status: 'completed', exitCode: 0 }],
  ])('has the same end here when it ends with "%s" there', async (script, end) => {
    expect(await ended(await launch(script))).toMatchObject(end)
  })

  it('is stopped, with a proof from the runner and its last output', async () => {
    const id = await launch('trap "echo leaving; exit 0" TERM; echo here; while :; do sleep 0.05; done')
    await server.get(`/api/agents/${id}/messages?since=1&wait=15000`)
    const report = await server.post(`/api/agents/${id}/stop`)
    expect(report).toMatchObject({ success: true, errors: [] })
    expect(report.resources[0]).toMatchObject({
      kind: 'remote-agent',
      outcome: 'released',
      steps: [{ step: 'terminate' }],
      proof: { strength: 'api', method: expect.stringContaining(runner.url) },
    })
    expect(agentProcesses(runner.home)).toEqual([])
    expect(await server.get(`/api/agents/${id}`)).toMatchObject({ status: 'terminated' })
    expect(await contents(id)).toEqual(['here', 'leaving'])
    await runnerBecomesEmpty()
  })

  it('is killed there when it ignores SIGTERM', async () => {
    const id = await launch('trap "" TERM INT; echo here; setsid sleep 1000 & while :; do sleep 1000; done')
    await server.get(`/api/agents/${id}/messages?since=1&wait=15000`)
    expect(await server.post(`/api/agents/${id}/stop`, { grace: 200 })).toMatchObject({ success: true })
    expect(agentProcesses(runner.home)).toEqual([])
  })

  it('is deleted with everything, here and there', async () => {
    const id = await launch('echo here; sleep 1000')
    await server.get(`/api/agents/${id}/messages?since=1&wait=15000`)
    expect((await server.call('DELETE', `/api/agents/${id}`)).status).toBe(204)
    expect((await server.call('GET', `/api/agents/${id}`)).status).toBe(404)
    expect(leftInHome(server.home)).toEqual([])
    await runnerBecomesEmpty()
  })

  it('ends with its request, and agents of another request do not', async () => {
    const one = await launch('sleep 1000', { requestId: 'one' })
    const two = await launch('sleep 1000', { requestId: 'two' })
    expect(await server.post('/api/requests/one/cleanup')).toMatchObject({ success: true, cleanedAgentsCount: 1 })
    expect(await server.get(`/api/agents/${one}`)).toMatchObject({ status: 'terminated' })
    expect(await runnerCall(`/agent/status/${two}`)).toMatchObject({ process_alive: true })
    expect(await server.post('/api/requests/two/cleanup')).toMatchObject({ success: true })
    await runnerBecomesEmpty()
  })

  it('is gone after a reset', async () => {
    await server.post('/api/test/reset-environment')
    for (let index = 0; index < 3; index++) await launch('echo here; sleep 1000')
    expect(await server.post('/api/test/reset-environment')).toMatchObject({ success: true, cleanedAgentsCount: 3 })
    expect(await server.get('/api/test/verify-clean-state')).toMatchObject({ isClean: true, issues: [] })
    await runnerBecomesEmpty()
  })

  it('is refused without leftovers when it cannot start there', async () => {
    const answer = await server.call('POST', '/api/agents', {
      body: { type: 'command', placement: 'remote', prompt: '', configuration: { command: ['/no/such/program'] } },
    })
    expect(answer).toMatchObject({ status: 400, body: { code: 'launch_refused', message: expect.stringContaining('/no/such/program') } })
    expect(await server.get('/api/agents')).not.toContainEqual(expect.objectContaining({ status: 'stuck' }))
    expect(await server.get('/api/cleanup/status')).toMatchObject({ agentCount: 0, stuck: [], leaks: [] })
    await runnerBecomesEmpty()
  })

  it('has no secrets in the ledgers and logs of both sides', async () => {
    const secret = 'secret-9c1d7e'
    const id = await launch('exit 1', { configuration: { command: ['sh', '-c', 'exit 1'], env: { KEY: secret } } })
    await ended(id)
    for (const { home, ebb } of [server, runner]) {
      for (const file of readdirSync(home).filter((name) => name.startsWith('ebb.db')))
        for (const word of [secret, token]) expect(readFileSync(`${home}/${file}`, 'latin1')).not.toContain(word)
      for (const word of [secret, token]) expect(ebb.errorOutput()).not.toContain(word)
    }
  })
})

describe('remote settings', () => {
  it('are checked by the doctor', async () => {
    const home = temporaryHome()
    const doctor = async (shown: string, url = runner.url): Promise<Json> => {
      const env = { EBB_REMOTE_URL: url, EBB_REMOTE_TOKEN: shown }
      const { code, stdout } = await ebb(['doctor', '--json'], { home, env })
      return { code, settings: JSON.parse(stdout.toString('utf8')).settings }
    }
    // The runner answers 401 to every call without the token.
    const bad = (setting: string): object => ({ setting, isGood: false, says: expect.stringContaining('401') })
    expect(await doctor('a-wrong-token')).toEqual({ code: 1, settings: [bad('remote.url'), bad('remote.token')] })
    const good = (setting: string): object => ({ setting, isGood: true, says: expect.any(String) })
    expect(await doctor(token)).toEqual({ code: 0, settings: [good('remote.url'), good('remote.token')] })
    // The health answer of a control plane looks like that of a runner. The doctor must still reject its address.
    const says = expect.stringContaining(`set remote.url to ${new URL(runner.url).origin}, without /api`)
    expect(await doctor(token, `${runner.url}/api`)).toEqual({ code: 1, settings: [{ setting: 'remote.url', isGood: false, says }] })
  })

  it.each([
    ['a wrong token', (): readonly string[] => ['--remote-url', runner.url, '--remote-token', 'a-wrong-token'], /refuses access \(401\)/],
    ['no runner at the address', (): readonly string[] => ['--remote-url', 'http://127.0.0.1:9'], /cannot be reached/],
    ['a server that is no runner', (): readonly string[] => ['--remote-url', server.url], /answered 404/],
  ])('with %s refuse the launch, and nothing is created', async (_what, words, says) => {
    await using other = await startServer(words())
    const body = { type: 'command', placement: 'remote', prompt: '', configuration: { command: ['true'] } }
    expect(await other.call('POST', '/api/agents', { body })).toMatchObject({
      status: 400,
      body: { code: 'launch_refused', message: expect.stringMatching(says) },
    })
    expect(await other.get('/api/agents')).toEqual([])
  })

  it('may name another address of a runner that listens on all addresses', async () => {
    await using everywhere = await startServer(['--runner', '--host', '0.0.0.0', '--token', token])
    const url = `http://127.0.0.2:${new URL(everywhere.url).port}`
    await using other = await startServer(['--remote-url', url, '--remote-token', token])
    const id = await other.launch({ type: 'command', placement: 'remote', prompt: '', configuration: { command: ['echo', 'here'] } })
    expect(await other.get(`/api/agents/${id}/status?wait=20000`)).toMatchObject({ status: 'completed' })
  })

  it('are required', async () => {
    await using other = await startServer()
    const body = { type: 'command', placement: 'remote', prompt: '', configuration: { command: ['true'] } }
    expect(await other.call('POST', '/api/agents', { body })).toMatchObject({
      status: 400,
      body: { code: 'launch_refused', message: expect.stringContaining('remote.url') },
    })
  })
})
