import { spawn } from 'node:child_process'
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { describe, expect, it } from 'vitest'
import { type Ended, ebb, nodeProgram, root, startEbb, temporaryHome } from '../../support/home.ts'
import { openBooks } from '../../support/ledger-file.ts'
import { startServer } from '../../support/server.ts'
import { agentProcesses } from '../../support/shared-server.ts'
import { waitUntil } from '../../support/world.ts'

/** `ebb serve` from the outside: its files, its output and its exit. */

function expectRefused(ended: Ended, code: number, sentence: RegExp): void {
  expect(ended).toMatchObject({ code, signal: null, stdout: Buffer.from('') })
  expect(ended.stderr).toMatch(/^ebb: [^\n]*\n$/)
  expect(ended.stderr).toMatch(sentence)
}

const token = 'a-token-of-some-length'

describe('ebb serve', () => {
  it('writes its address for its owner only, and removes it at its exit', async () => {
    await using server = await startServer(['--token', token])
    const file = join(server.home, 'server.json')
    expect(JSON.parse(server.ebb.output())).toEqual({ url: server.url, pid: server.ebb.pid, home: server.home })
    expect(JSON.parse(readFileSync(file, 'utf8'))).toEqual({ url: server.url, pid: server.ebb.pid, token })
    expect(statSync(file).mode & 0o777).toBe(0o600)
    await server.stop()
    expect(existsSync(file)).toBe(false)
    expect(await server.ebb.ended).toMatchObject({ code: 0 })
    expect(server.ebb.output() + server.ebb.errorOutput()).not.toContain(token)
  })

  it('prints its address in a sentence without --json', async () => {
    const server = startEbb(['serve', '--port', '0'], { home: temporaryHome() })
    await server.says('\n')
    expect(server.output()).toMatch(/^Ebb listens on http:\/\/127\.0\.0\.1:\d+ \(\w+\); Ctrl-C closes everything\.\n$/)
    server.signal('SIGINT')
    expect(await server.ended).toMatchObject({ code: 0, stderr: '' })
  })

  it('is the only server of its home; a second one names the pid and address of the first', async () => {
    await using server = await startServer()
    const second = await ebb(['serve', '--port', '0'], { home: server.home })
    expectRefused(second, 1, new RegExp(`already runs on this home: pid ${server.ebb.pid}, ${server.url}\\.`))
    expect(JSON.parse(readFileSync(join(server.home, 'server.json'), 'utf8'))).toMatchObject({ pid: server.ebb.pid })
  })

  it('refuses a port that is in use', async () => {
    await using server = await startServer()
    const { port } = new URL(server.url)
    expectRefused(await ebb(['serve', '--port', port], { home: temporaryHome() }), 1, new RegExp(`Port ${port} on .* is taken.*--port`))
  })

  it('ends agents that ignore SIGTERM within its eight seconds', async () => {
    const stubborn = ['sh', '-c', 'trap "" TERM INT; echo ready; while :; do sleep 1000; done']
    await using server = await startServer()
    const id = await server.command(stubborn)
    expect(await server.get(`/api/agents/${id}/messages?since=1&wait=10000`)).toMatchObject([{ content: 'ready' }])
    const began = performance.now()
    server.ebb.signal('SIGTERM')
    await waitUntil(() => server.ebb.child.exitCode !== null, 9_000, 'the server has exited')
    expect(await server.ebb.ended).toMatchObject({ code: 0 })
    expect(performance.now() - began).toBeLessThan(8_000)
  })
})

describe('ebb serve: exit within eight seconds', () => {
  /**
   * The deadline of these tests for the exit of a server. docs/in-depth/server.md promises eight seconds, which leaving.test.ts checks on
   * simulated time. On a busy machine the exit takes longer.
   */
  const inTime = 15_000

  it('also while its database is locked', async () => {
    const server = await startServer()
    const id = await server.command(['sh', '-c', 'while :; do echo still here; sleep 0.05; done'])
    expect(await server.get(`/api/agents/${id}/messages?since=1&wait=10000`)).not.toEqual([])
    const lock = new DatabaseSync(join(server.home, 'ebb.db'), { timeout: 5_000 })
    lock.exec('BEGIN IMMEDIATE')
    const began = performance.now()
    server.ebb.signal('SIGTERM')
    await server.ebb.ended
    expect(performance.now() - began).toBeLessThan(inTime)
    expect(agentProcesses(server.home)).toEqual([])
    expect(existsSync(join(server.home, 'server.json'))).toBe(false)
    lock.close()
    await waitUntil(() => openBooks(server.home), 30_000, 'the sentinel has corrected the ledger')
  })
})

it('ebb serve: listens after a while even when the recovery does not end', async () => {
  const home = temporaryHome()
  const program = spawn(
    nodeProgram,
    ['--disable-warning=ExperimentalWarning', join(root, 'test/fixtures/serves-with-a-slow-recovery.ts')],
    {
      env: { ...process.env, EBB_HOME: home, EBB_PORT: '0' },
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  )
  const listening = new Promise<string>((resolve) => program.stdout.once('data', (chunk: Buffer) => resolve(chunk.toString())))
  const exit = new Promise((resolve) => void program.once('exit', resolve))
  expect(await listening).toMatch(/^Ebb listens on /)
  program.kill('SIGTERM')
  expect(await exit).toBe(0)
})

it('ebb serve: refuses an address of another machine', async () => {
  const ended = await ebb(['serve', '--port', '0', '--host', '192.0.2.1', '--token', token], { home: temporaryHome() })
  expectRefused(ended, 2, /192\.0\.2\.1 is not an address of this machine.*--host/)
})

it('ebb serve: exits with 1 on an unexpected error, as every command but exec', async () => {
  const server = startEbb(['serve', '--port', '0'], { home: temporaryHome() })
  // When the pipe is closed, the server gets EPIPE as it prints its address.
  server.child.stdout?.destroy()
  expect(await server.ended).toMatchObject({ code: 1, stderr: expect.stringContaining('EPIPE') })
})

it('ebb serve: its address in the ledger can be called', async () => {
  await using server = await startServer(['--host', '::1'])
  const db = new DatabaseSync(join(server.home, 'ebb.db'), { readOnly: true })
  const rows = db.prepare('SELECT address FROM incarnation').all()
  db.close()
  expect(rows).toEqual([{ address: 'http://[::1]:0' }])
})

describe('ebb serve: refused before anything is created', () => {
  const refusals: readonly (readonly [words: readonly string[], env: Record<string, string>, sentence: RegExp])[] = [
    [['--host', '0.0.0.0'], {}, /Listening on 0\.0\.0\.0 lets other machines in; give a --token/],
    [[], { EBB_HOST: '::' }, /Listening on :: lets other machines in/],
    [[], { EBB_PORT: 'http' }, /EBB_PORT must be a port/],
    [['--token', 'short'], {}, /--token must have 8 to 512 visible characters/],
    [['--allow-origin', '*'], {}, /--allow-origin must be an origin such as http:\/\/localhost:3000, not "\*"/],
    [['--allow-origin', 'localhost:3000'], {}, /--allow-origin must be an origin .* not "localhost:3000"/],
    [
      [],
      { EBB_ALLOW_ORIGIN: 'https://a.example,https://b.example/page' },
      /EBB_ALLOW_ORIGIN must be an origin .* not "https:\/\/b\.example\/page"/,
    ],
    [['--force'], {}, /has no option --force/],
    [['now'], {}, /does not take "now"/],
  ]

  it('the error names what is refused, with exit code 2', async () => {
    const home = join(temporaryHome(), 'home')
    const ends = await Promise.all(refusals.map(([words, env]) => ebb(['serve', ...words], { home, env })))
    for (const [index, [, , sentence]] of refusals.entries()) expectRefused(ends[index] as Ended, 2, sentence)
    expect(existsSync(home)).toBe(false)
  })
})

describe('ebb serve: settings', () => {
  const origin = 'https://pages.example'

  async function reached(
    home: string,
    env: Record<string, string>,
  ): Promise<readonly [origin: string | null, reset: number, open: number]> {
    const ebb = startEbb(['serve', '--json'], { home, env })
    await ebb.says('\n')
    const { url } = JSON.parse(ebb.output()) as { url: string }
    const headers = { authorization: `Bearer ${token}`, origin }
    const health = await fetch(`${url}/api/health`, { headers })
    const reset = await fetch(`${url}/api/test/verify-clean-state`, { headers })
    const open = await fetch(`${url}/api/health`)
    ebb.signal('SIGTERM')
    await ebb.ended
    return [health.headers.get('access-control-allow-origin'), reset.status, open.status]
  }

  it('come from the environment and from the file of the home', async () => {
    const byFile = temporaryHome()
    const file = { port: 0, token, testEndpoints: true, allowOrigin: ['https://other.example', origin] }
    writeFileSync(join(byFile, 'ebb.config.json'), JSON.stringify(file))
    const env = { EBB_PORT: '0', EBB_TOKEN: token, EBB_TEST_ENDPOINTS: 'true', EBB_ALLOW_ORIGIN: `https://other.example,${origin}` }
    expect(await Promise.all([reached(byFile, {}), reached(temporaryHome(), env)])).toEqual([
      [origin, 200, 401],
      [origin, 200, 401],
    ])
  })
})
