import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { expect, it, vi } from 'vitest'
import { cleanupRealAgents, startServer, type ThrowAwayServer, verifyTestIsolation } from '../../../src/testing/index.ts'
import { nodeProgram, root, temporaryHome } from '../../support/home.ts'
import { installationOf } from '../../support/ledger-file.ts'
import { bindMount } from '../../support/mounts.ts'
import { processesOfHome, waitUntil } from '../../support/world.ts'

/** The server closes within 8 s, and its sentinel ends shortly after it. */
const patienceMs = 15_000

const post = (url: string, body: object): Promise<Response> =>
  fetch(url, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) })
const launch = async ({ url }: Pick<ThrowAwayServer, 'url'>, command: readonly string[], env = {}): Promise<string> =>
  ((await (await post(`${url}/api/agents`, { type: 'command', prompt: '', configuration: { command, env } })).json()) as { id: string }).id

async function expectNothingLeft(home: string, installation: string | undefined): Promise<void> {
  await waitUntil(() => processesOfHome(home, installation), patienceMs, 'the server and all of its processes are gone')
  await waitUntil(() => !existsSync(home), patienceMs, 'the home is gone')
}

it('startServer: the server has a temporary home and the test endpoints, and leaves nothing', async () => {
  const server = await startServer()
  expect(server.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/)
  expect(statSync(server.home).mode & 0o777).toBe(0o700)
  await launch(server, ['sleep', '1000'])
  const installation = installationOf(server.home)
  expect((await fetch(`${server.url}/api/test/verify-clean-state`)).status).toBe(200)
  expect(processesOfHome(server.home, installation).length).toBeGreaterThanOrEqual(3)
  const stopped = server.stop()
  expect(server.stop()).toBe(stopped)
  await stopped
  expect(existsSync(server.home)).toBe(false)
  await expectNothingLeft(server.home, installation)
})

it('startServer: leaving the `await using` block stops the server', async () => {
  let url = ''
  {
    await using server = await startServer()
    url = server.url
    expect((await fetch(`${url}/api/health`)).status).toBe(200)
  }
  await expect(fetch(`${url}/api/health`)).rejects.toThrow()
})

it('startServer: passes arguments and environment variables, and returns the token', async () => {
  await using server = await startServer({ args: ['--token', 'a-secret-token', '--max-agents', '1'], env: { OF_THE_TEST: 'yes' } })
  expect(server.token).toBe('a-secret-token')
  await expect(verifyTestIsolation(server.url)).rejects.toThrow('answered with 401')
  await verifyTestIsolation(server)
  const headers = { authorization: `Bearer ${server.token}`, 'content-type': 'application/json' }
  const body = JSON.stringify({
    type: 'command',
    prompt: '',
    configuration: { command: ['sh', '-c', 'echo $OF_THE_TEST; exec sleep 1000'] },
  })
  const { id } = (await (await fetch(`${server.url}/api/agents`, { method: 'POST', headers, body })).json()) as { id: string }
  const said = await (await fetch(`${server.url}/api/agents/${id}/messages?since=1&wait=15000`, { headers })).json()
  expect(said).toMatchObject([{ content: 'yes' }])
  expect((await fetch(`${server.url}/api/agents`, { method: 'POST', headers, body })).status).toBe(429)
  expect(await cleanupRealAgents(server)).toMatchObject({ cleaned: 1, remaining: 0 })
})

it("startServer: ignores the user's store, home and token in the environment", async () => {
  const elsewhere = temporaryHome()
  vi.stubEnv('EBB_STORE', `sqlite:${join(elsewhere, 'their.db')}`)
  vi.stubEnv('EBB_TOKEN', 'their-secret-token')
  vi.stubEnv('EBB_HOME', elsewhere)
  try {
    await using server = await startServer()
    await verifyTestIsolation(server.url)
    expect(existsSync(join(elsewhere, 'their.db'))).toBe(false)
  } finally {
    vi.unstubAllEnvs()
  }
})

it('startServer: rejects with the error output of a server that cannot start, and leaves nothing', async () => {
  vi.stubEnv('TMPDIR', temporaryHome())
  try {
    const failed = await startServer({ args: ['--nonsense'] }).catch((error: Error) => error.message)
    expect(failed).toMatch(/^The throw-away server did not start \(2\): ebb: .*--nonsense/)
    expect(readdirSync(tmpdir())).toEqual([])
  } finally {
    vi.unstubAllEnvs()
  }
})

it('startServer: stop rejects when something is left, and keeps the home', async () => {
  const server = await startServer()
  const id = await launch(server, ['sleep', '1000'])
  const installation = installationOf(server.home)
  const resources = (await (await fetch(`${server.url}/api/agents/${id}/resources`)).json()) as { kind: string; name: string }[]
  const log = resources.find(({ kind }) => kind === 'log')
  using mount = bindMount('/dev/null', log?.name ?? '')
  await expect(server.stop()).rejects.toThrow(`did not end cleanly (3); its home is kept for inspection: ${server.home}`)
  expect(existsSync(server.home)).toBe(true)
  mount[Symbol.dispose]()
  // The server did not release its sentinel, which now closes what is left.
  await waitUntil(() => processesOfHome(server.home, installation), patienceMs, 'the sentinel has finished')
  rmSync(server.home, { recursive: true })
})

async function startInAnotherProcess(
  how: 'wait' | 'exit',
): Promise<{ child: ChildProcess; home: string; installation: string | undefined }> {
  const program = join(root, 'test', 'fixtures', 'starts-a-throw-away-server.ts')
  const child = spawn(nodeProgram, ['--disable-warning=ExperimentalWarning', program, how], { stdio: ['pipe', 'pipe', 'inherit'] })
  const { value } = await createInterface(child.stdout)[Symbol.asyncIterator]().next()
  const { home } = JSON.parse(value ?? '') as { home: string }
  return { child, home, installation: installationOf(home) }
}

it('startServer: killing the test process ends the server and its agents, and removes the home', async () => {
  const { child, home, installation } = await startInAnotherProcess('wait')
  expect(processesOfHome(home, installation).length).toBeGreaterThanOrEqual(3)
  child.kill('SIGKILL')
  await expectNothingLeft(home, installation)
})

it('startServer: a test process exits without stopping its server, and the server ends with it', async () => {
  const { child, home, installation } = await startInAnotherProcess('exit')
  if (child.exitCode === null) await once(child, 'exit')
  expect(child.exitCode).toBe(0)
  await expectNothingLeft(home, installation)
})
