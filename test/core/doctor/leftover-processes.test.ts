import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { fixture } from '../../support/fixtures.ts'
import { Garden, watch } from '../../support/leftovers.ts'
import { needs } from '../../support/real.ts'
import { seen, survivors, waitUntil } from '../../support/world.ts'
import { found, ofPid, open } from './looks.ts'

/** The doctor finds orphans, recognises their kind and ends them. Only processes with the mark of the test are suspects. */

const brokenPipe = 'exec 3>&1; { "$@" </dev/null 2>/dev/null 3>&- & echo $! >&3; } | true'

describe('doctor: an orphan', () => {
  needs('gcc')

  const agents: readonly (readonly [what: string, program: string, words: readonly string[], sure: string])[] = [
    ['the binary of claude', 'claude', ['-p', 'Fix it'], 'likely'],
    ['the native binary of codex', 'node_modules/@openai/codex-linux-x64/vendor/x/bin/codex', ['exec'], 'likely'],
    ['the npm package of claude in node', 'node', ['node_modules/@anthropic-ai/claude-code/cli.js', '-p'], 'likely'],
    [
      'the relaunched child of gemini',
      'node',
      ['--max-old-space-size=4096', '/lib/node_modules/@google/gemini-cli/bundle/gemini.js'],
      'likely',
    ],
    ['opencode in bun', 'bun', ['/usr/lib/node_modules/opencode-ai/bin/opencode', 'run'], 'likely'],
    ['claude of its own installer', 'share/claude/versions/2.1.30', ['-p'], 'likely'],
    ['npx with the package of codex', 'npx', ['-y', '@openai/codex@0.166.0', 'exec'], 'likely'],
  ]
  for (const [what, program, words, sure] of agents) {
    it(`is found as an agent when it is ${what}`, async () => {
      await using garden = new Garden()
      const pid = await garden.orphan([garden.program(program), ...words])
      expect(ofPid(await found(garden), pid)).toMatchObject({ kind: 'agent', sure, fixes: true, processes: [{ pid }] })
    })
  }

  it('is a likely agent when only its MCP servers and its own further process run below it', async () => {
    await using garden = new Garden()
    const inner = garden.script(
      'node_modules/@google/gemini-cli/gemini',
      `${garden.program('mcp-server-git')} & sh -c '${garden.program('chrome-devtools-mcp')}; :' & wait`,
    )
    const pid = await garden.orphan([garden.script('gemini', `${inner}; :`)])
    const runs = (command: string): boolean => survivors(garden.mark).some((one) => one.command === command)
    await waitUntil(() => runs('mcp-server-git') && runs('chrome-devtools'), 20_000, 'all of them run')
    expect(ofPid(await found(garden), pid)).toMatchObject({ kind: 'agent', sure: 'likely', fixes: true })
  })

  it('is a likely agent when only its argv[0] has the name of an agent', async () => {
    await using garden = new Garden()
    const pid = await garden.orphan(['bash', '-c', 'exec 2>&-; exec -a claude sleep 10000'], { shell: brokenPipe })
    await waitUntil(() => seen(pid)?.command === 'sleep', 20_000, 'it has started sleep')
    expect(ofPid(await found(garden), pid)).toMatchObject({ kind: 'agent', sure: 'likely' })
  })

  const servers: readonly (readonly [program: string, words: readonly string[], sure: string])[] = [
    ['node', ['/x/node_modules/@modelcontextprotocol/server-filesystem/dist/index.js', '/home'], 'sure'],
    ['mcp-server-git', [], 'sure'],
    ['npx', ['-y', '@playwright/mcp@latest'], 'sure'],
    ['uvx', ['mcp-server-fetch'], 'sure'],
    ['python3', ['-m', 'mcp_server_time'], 'sure'],
    ['node', ['/home/me/my-mcp-thing.js'], 'likely'],
    ['chrome-devtools-mcp', [], 'sure'],
    ['uv', ['tool', 'uvx', '--python', '3.12', 'mcp-server-git==1.0'], 'sure'],
    ['npx', ['tsx', 'src/mcp-server.ts'], 'likely'],
  ]
  for (const [program, words, sure] of servers) {
    it(`is found as an MCP server when it is ${program} ${words.join(' ')}`, async () => {
      await using garden = new Garden()
      const pid = await garden.orphan([garden.program(program), ...words])
      expect(ofPid(await found(garden), pid)).toMatchObject({ kind: 'mcp-server', sure })
    })
  }

  for (const [name, value] of [
    ['CLAUDECODE', '1'],
    ['GEMINI_CLI', '1'],
    ['OPENCODE', '1'],
    ['CODEX_THREAD_ID', 'abc'],
  ] as const) {
    it(`is found as a tool when ${name} is in its environment`, async () => {
      await using garden = new Garden()
      const pid = await garden.orphan([garden.program('dev-server')], { env: { [name]: value } })
      expect(ofPid(await found(garden), pid)).toMatchObject({ kind: 'tool', sure: 'sure', fixes: true })
    })
  }

  it('is one leftover with its descendants and their memory when it is the shell of a tool', async () => {
    await using garden = new Garden()
    const body = 'source /home/me/.claude/shell-snapshots/snapshot-bash-1-abc.sh; sleep 10000; :'
    const pid = await garden.orphan(['bash', '-c', body.replace('source', 'true')])
    await waitUntil(() => survivors(garden.mark).some(({ command }) => command === 'sleep'), 20_000, 'it has a child')
    const one = ofPid(await found(garden), pid)
    expect(one).toMatchObject({ kind: 'tool', sure: 'sure' })
    expect(one?.processes).toHaveLength(2)
    expect(one?.memoryBytes).toBeGreaterThan(0)
    expect(one?.evidence.join(' ')).toContain('Below it runs sleep.')
  })

  it('is sure when its output is a pipe or a socket without a reader', async () => {
    await using garden = new Garden()
    const program = garden.program('claude')
    const piped = await garden.orphan([program, 'pipe'], { shell: brokenPipe })
    const child = spawn('sh', ['-c', 'exec setsid sh -c \'"$@" & echo $! >&2\' sh "$@"', 'sh', program, 'socket'], {
      env: garden.environment(),
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    const exited = new Promise((resolve) => child.once('exit', resolve))
    const viaSocket = await new Promise<number>((resolve) => child.stderr.once('data', (data: Buffer) => resolve(Number(data))))
    await exited
    await waitUntil(() => seen(viaSocket)?.command === 'claude', 20_000, 'it has started claude')
    expect(ofPid(await found(garden), viaSocket)).toMatchObject({ sure: 'perhaps', fixes: false })
    const closed = [child.stdout, child.stderr].map((stream) => new Promise((resolve) => stream.once('close', resolve)))
    child.stdout.destroy()
    child.stderr.destroy()
    await Promise.all(closed)
    const now = await found(garden)
    expect(ofPid(now, piped)).toMatchObject({ sure: 'sure' })
    expect(ofPid(now, piped)?.evidence.join(' ')).toContain('a pipe without a reader')
    expect(ofPid(now, viaSocket)).toMatchObject({ sure: 'sure' })
    expect(ofPid(now, viaSocket)?.evidence.join(' ')).toContain('a socket without a reader')
  })

  it('is sure when it is a tool whose agent has ended, also when the pid of the agent was reused', async () => {
    await using garden = new Garden()
    const pid = await garden.orphan([garden.program('dev-server')], { env: { CLAUDECODE: '1', CLAUDE_PID: String(process.pid) } })
    expect(ofPid(await found(garden), pid)).toMatchObject({ kind: 'tool', sure: 'sure' })
  })

  it('is sure when it is a tool and the only agent of its program is itself an orphan', async () => {
    await using garden = new Garden()
    const agent = await garden.orphan([garden.program('gemini')])
    const tool = await garden.orphan([garden.program('dev-server')], { env: { GEMINI_CLI: '1' } })
    const all = await found(garden)
    expect(ofPid(all, agent)).toMatchObject({ kind: 'agent', fixes: true })
    expect(ofPid(all, tool)).toMatchObject({ kind: 'tool', sure: 'sure' })
  })

  it('is shown without the secrets of its command line', async () => {
    await using garden = new Garden()
    const secrets = ['sk-ant-api03-abcdefgh12345678', 'hunter2hunter2', 'ghp_0123456789abcdef', 'topsecret', 'pass123']
    const words = [
      '--api-key',
      secrets[1] ?? '',
      `TOKEN=${secrets[3]}`,
      secrets[0] ?? '',
      '--header',
      `Authorization: Bearer ${secrets[2]}`,
      `https://me:${secrets[4]}@host/`,
    ]
    const pid = await garden.orphan([garden.program('claude'), ...words, '\u001b[2J', 'x'.repeat(5_000)])
    const said = JSON.stringify(ofPid(await found(garden), pid))
    for (const secret of secrets) expect(said).not.toContain(secret)
    expect(said.length).toBeLessThan(1_500)
  })
})

describe('doctor: ending an orphan', () => {
  needs('gcc')

  it('ends with SIGTERM, is proven by a scan, and is skipped the second time', async () => {
    await using garden = new Garden()
    const pid = await garden.orphan([garden.script('claude')], { env: { CLAUDECODE: '1' } })
    // The grace of ten seconds is long enough that a process that ends on SIGTERM is not killed.
    const leftovers = open(garden, 10_000)
    const { leftovers: shown } = await leftovers.find()
    expect(await leftovers.end(shown)).toMatchObject([{ outcome: 'gone', steps: [{ step: 'terminate' }] }])
    expect(seen(pid)).toBeUndefined()
    expect(survivors(garden.mark)).toEqual([])
    // A second call of `end` finds no process to end.
    expect(await leftovers.end(shown)).toMatchObject([{ outcome: 'changed', steps: [] }])
  })

  it('kills a process that ignores SIGTERM, also when it is stopped', async () => {
    await using garden = new Garden()
    const ignoring = garden.script('claude', 'trap "" TERM; while :; do sleep 10000; done')
    const pid = await garden.orphan([ignoring], { env: { CLAUDECODE: '1' } })
    await waitUntil(() => survivors(garden.mark).some(({ command }) => command === 'sleep'), 20_000, 'it ignores SIGTERM')
    process.kill(pid, 'SIGSTOP')
    const leftovers = open(garden, 300)
    const ended = await leftovers.end((await leftovers.find()).leftovers)
    expect(ended).toMatchObject([{ outcome: 'gone', steps: [{ step: 'terminate' }, { step: 'kill' }] }])
    expect(survivors(garden.mark)).toEqual([])
  })

  it('continues a stopped process, so that it ends on SIGTERM', async () => {
    await using garden = new Garden()
    const pid = await garden.orphan([garden.program('claude')], { env: { CLAUDECODE: '1' } })
    process.kill(pid, 'SIGSTOP')
    await waitUntil(() => seen(pid)?.state === 'T', 20_000, 'it is stopped')
    const leftovers = open(garden, 10_000)
    const ended = await leftovers.end((await leftovers.find()).leftovers)
    expect(ended).toMatchObject([{ outcome: 'gone', steps: [{ step: 'terminate' }] }])
    expect(ended[0]?.steps).toHaveLength(1)
  })

  it('also ends processes that fork while they are being killed', async () => {
    await using garden = new Garden()
    await garden.orphan([fixture('forks-while-being-killed')], { env: { CLAUDECODE: '1' } })
    const leftovers = open(garden, 300)
    const ended = await leftovers.end((await leftovers.find()).leftovers)
    expect(ended.map(({ outcome }) => outcome)).toEqual(['gone'])
    expect(survivors(garden.mark)).toEqual([])
  })

  it('leaves a process alone that has reused the pid', async () => {
    await using garden = new Garden()
    const pid = await garden.orphan([garden.program('claude')], { env: { CLAUDECODE: '1' } })
    const isThere = watch(pid)
    const leftovers = open(garden)
    const shown = (await leftovers.find()).leftovers.map((one) => ({
      ...one,
      id: `process:${pid}:1`,
      processes: [{ pid, startTime: '1' }],
    }))
    expect(shown).toHaveLength(1)
    expect(await leftovers.end(shown)).toMatchObject([{ outcome: 'changed' }])
    expect(isThere()).toBe(true)
  })

  it('leaves a process alone that may be in use since it was shown', async () => {
    await using garden = new Garden()
    const log = join(garden.folder, 'log')
    const shell = '"$@" </dev/null >/dev/null 2>&1 & echo $!'
    const pid = await garden.orphan([garden.script('claude', `exec >/dev/null; trap 'exec >${log}' USR1; while :; do sleep 0.01; done`)], {
      shell,
      env: { CLAUDECODE: '1' },
    })
    // SIGUSR1 would end the script before its trap is set. The trap is set when the loop runs.
    await waitUntil(() => survivors(garden.mark).some(({ command }) => command === 'sleep'), 20_000, 'its loop runs')
    const isThere = watch(pid)
    const leftovers = open(garden)
    const shown = (await leftovers.find()).leftovers
    expect(shown).toMatchObject([{ fixes: true }])
    process.kill(pid, 'SIGUSR1')
    await expect.poll(async () => ofPid(await found(garden), pid)?.sure, { timeout: 20_000 }).toBe('perhaps')
    expect(await leftovers.end(shown)).toMatchObject([{ outcome: 'changed', says: expect.stringContaining('may be in use') }])
    expect(isThere()).toBe(true)
  })
})
