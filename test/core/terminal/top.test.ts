import { readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { ebb, ebbProgram, temporaryHome } from '../../support/home.ts'
import { needs } from '../../support/real.ts'
import { startServer, type TestServer } from '../../support/server.ts'
import { useServer } from '../../support/shared-server.ts'
import { Terminal } from '../../support/terminal.ts'
import { seen, waitUntil } from '../../support/world.ts'

/** `ebb top` and its keys, on a real terminal. */

needs('tmux')

const server = useServer()
const esc = '\u001b'

async function agent(prompt: string, on: TestServer = server): Promise<string> {
  const id = await on.command(['sh', '-c', 'echo ready; exec sleep 1000'], { prompt })
  await on.get(`/api/agents/${id}/messages?since=1&wait=10000`)
  return id
}

/** A proxy in front of the server. `passes` forwards a request (true), leaves it unanswered (false), or answers 404 with a text. */
async function inFront(passes: (path: string) => boolean | string): Promise<{ readonly url: string; close(): void }> {
  const front = createServer((request, response) => {
    const path = request.url ?? ''
    const answer = passes(path)
    if (typeof answer === 'string') response.writeHead(404).end(answer)
    else if (answer)
      server.call('GET', path).then(
        ({ body }) => response.end(JSON.stringify(body)),
        () => response.destroy(),
      )
  })
  await new Promise<void>((resolve) => front.listen(0, '127.0.0.1', resolve))
  const close = (): void => {
    front.closeAllConnections()
    front.close()
  }
  return { url: `http://127.0.0.1:${(front.address() as AddressInfo).port}`, close }
}

/** Starts `ebb top` in a terminal that has some output. The shell calls exec, so its pid is that of `ebb top`. */
async function openTop(home: string, env: Readonly<Record<string, string>> = {}): Promise<{ terminal: Terminal; pid: () => number }> {
  const file = join(temporaryHome(), 'pid')
  const terminal = await Terminal.open({ EBB_HOME: home, E: ebbProgram, F: file, ...env }, { columns: 100, rows: 24 })
  terminal.type(`echo before-$((1 + 1)); sh -c 'echo $$ > $F; exec $E top'; echo "code $?"`)
  await terminal.shows('? help')
  return { terminal, pid: () => Number(readFileSync(file, 'utf8')) }
}

/** Requires that the terminal is restored: screen contents, cursor, wrapping and echo. */
async function requireRestored(terminal: Terminal, code: number): Promise<void> {
  await terminal.shows(new RegExp(`^code ${code}\nprompt>$`, 'm'))
  expect(terminal.screen()).toMatch(/^before-2$/m)
  expect(['alternate_on', 'cursor_flag', 'wrap_flag'].map((name) => terminal.fact(name))).toEqual(['0', '1', '1'])
  terminal.type('echo "echo is $((40 + 2))"')
  await terminal.shows(/^prompt> echo "echo is \$\(\(40 \+ 2\)\)"\necho is 42$/m)
}

describe('ebb top: keys', () => {
  it('select, show, ask, stop, sort and help', async () => {
    const first = await agent('the first one')
    const second = await agent('the second one')
    const { terminal } = await openTop(server.home)
    await using _ = terminal
    await terminal.shows(new RegExp(`^❯ ${second.slice(0, 8)} .*the second one`, 'm'))
    terminal.press('Down')
    await terminal.shows(new RegExp(`^❯ ${first.slice(0, 8)}`, 'm'))
    terminal.press('k')
    await terminal.shows(new RegExp(`^❯ ${second.slice(0, 8)}`, 'm'))
    terminal.press('j', 'Enter')
    await terminal.shows(new RegExp(`^Agent +${first}\n[\\s\\S]*^Prompt +the first one\n[\\s\\S]*^Resources \\(`, 'm'))
    terminal.press('Escape')
    await terminal.shows('Enter show')
    terminal.press('?')
    await terminal.shows('Viewing and quitting do not affect agents')
    terminal.press('q')
    await terminal.shows('r sort (age)')
    terminal.press('r')
    await terminal.shows('r sort (memory)')
    terminal.press('s')
    await terminal.shows(`Stop the agent ${first.slice(0, 8)}? y/n`)
    terminal.press('n')
    await terminal.shows('The agent was not stopped.')
    expect(await server.get(`/api/agents/${first}/status`)).toMatchObject({ status: 'running' })
    terminal.press('s', 'y')
    await terminal.shows(`${first.slice(0, 8)} is stopped and proven gone.`)
    expect(await server.get(`/api/agents/${first}/status`)).toMatchObject({ status: 'terminated' })
    await terminal.shows(new RegExp(`^1 agent · [\\s\\S]*^❯ ${second.slice(0, 8)}`, 'm'))
    terminal.press('q')
    await requireRestored(terminal, 0)
  })
})

describe('ebb top: the page of an agent', () => {
  it('says that the agent was deleted', async () => {
    const id = await agent('not for long')
    const { terminal } = await openTop(server.home)
    await using _ = terminal
    await terminal.shows(new RegExp(`^❯ ${id.slice(0, 8)}`, 'm'))
    terminal.press('Enter')
    await terminal.shows(/^Prompt +not for long/m)
    expect((await server.call('DELETE', `/api/agents/${id}`)).status).toBe(204)
    await terminal.shows(/^This agent was deleted\.[\s\S]*^q back$/m)
    terminal.press('q')
    await terminal.shows('No agents are running.')
    terminal.press('q')
    await requireRestored(terminal, 0)
  })

  it('scrolls to its ends and no further', async () => {
    const id = await agent('a page')
    const { terminal } = await openTop(server.home)
    await using _ = terminal
    await terminal.shows(new RegExp(`^❯ ${id.slice(0, 8)}`, 'm'))
    terminal.resize(100, 12)
    terminal.press('Enter')
    await terminal.shows(/^Agent /m)
    terminal.press(...Array.from({ length: 60 }, () => 'Down'))
    await terminal.shows(/─ process-tree /)
    terminal.press('Up')
    await waitUntil(() => !/─ process-tree /.test(terminal.screen()), 10_000, 'the page has scrolled up by one line')
    terminal.press('Home')
    await terminal.shows(/^Agent /m)
    terminal.press('PageDown')
    await waitUntil(() => !/^Agent /m.test(terminal.screen()), 10_000, 'the next page')
    terminal.press('PageUp')
    await terminal.shows(/^Agent /m)
    terminal.press('End')
    await terminal.shows(/─ process-tree /)
    terminal.press('q', 'q')
    await requireRestored(terminal, 0)
  })
})

it('ebb top: a running close is shown with its age until it ends', async () => {
  const id = await server.command(['sh', '-c', 'trap "" TERM INT; echo ready; while :; do sleep 1000; done'])
  await server.get(`/api/agents/${id}/messages?since=1&wait=10000`)
  const { terminal } = await openTop(server.home)
  await using _ = terminal
  await terminal.shows(new RegExp(`^❯ ${id.slice(0, 8)}`, 'm'))
  terminal.press('s', 'y')
  await terminal.shows(
    new RegExp(`^closing agent ${id.slice(0, 8)} \\(terminated\\) for [1-9]s\n[^]*^❯ ${id.slice(0, 8)} +command +\\S+ +stopping`, 'm'),
  )
  await terminal.shows(/^Nothing is stuck, held back or leaked\.\n\nNo agents are running\./m)
  terminal.press('q')
  await requireRestored(terminal, 0)
})

describe('ebb top: the screen', () => {
  it('is redrawn when the window changes its size, however small it is', async () => {
    const id = await agent(`a long prompt ${'that goes on '.repeat(30)}`)
    const { terminal } = await openTop(server.home)
    await using _ = terminal
    await terminal.shows(new RegExp(`PLACEMENT[\\s\\S]*^❯ ${id.slice(0, 8)}`, 'm'))
    terminal.resize(60, 12)
    // The check reads the screen once for all conditions, because other screens appear between the resize and the complete redraw.
    const otherThanNarrow = (): readonly string[] => {
      const screen = terminal.screen().trimEnd()
      const isNarrow = screen.startsWith('ebb top') && screen.split('\n').length === 12 && !screen.includes('PLACEMENT')
      return isNarrow ? [] : [screen]
    }
    await waitUntil(otherThanNarrow, 20_000, 'the narrow screen is drawn')
    terminal.resize(10, 4)
    terminal.resize(180, 30)
    await terminal.shows(/PLACEMENT[\s\S]*a long prompt that goes on that goes on that goes on/)
    terminal.press('C-c')
    await requireRestored(terminal, 0)
  })

  it.each([
    ['SIGTERM', 143],
    ['SIGINT', 130],
    ['SIGHUP', 129],
  ] as const)('is restored at %s', async (signal, code) => {
    const { terminal, pid } = await openTop(server.home)
    await using _ = terminal
    process.kill(pid(), signal)
    await requireRestored(terminal, code)
  })

  it('is restored after a crash, and the error is printed', async () => {
    const crashes = join(temporaryHome(), 'crashes.cjs')
    writeFileSync(crashes, "process.on('SIGUSR2', () => { throw new Error('a planted crash') })")
    const { terminal, pid } = await openTop(server.home, { NODE_OPTIONS: `--require=${crashes}` })
    await using _ = terminal
    process.kill(pid(), 'SIGUSR2')
    await terminal.shows('an unexpected error: Error: a planted crash')
    await requireRestored(terminal, 1)
  })

  it('is restored by Ctrl-Z, and taken again by fg', async () => {
    const { terminal, pid } = await openTop(server.home)
    await using _ = terminal
    terminal.press('C-z')
    await waitUntil(() => seen(pid())?.state === 'T', 10_000, 'it is stopped')
    await terminal.shows(/Stopped/)
    expect([terminal.fact('alternate_on'), terminal.fact('cursor_flag')]).toEqual(['0', '1'])
    terminal.type('fg; echo "then $?"')
    await terminal.shows('? help')
    terminal.press('q')
    await terminal.shows('then 0')
    expect(terminal.fact('alternate_on')).toBe('0')
  })

  it('is restored at SIGTSTP from another process, and taken again', async () => {
    const { terminal, pid } = await openTop(server.home)
    await using _ = terminal
    process.kill(pid(), 'SIGTSTP')
    await waitUntil(() => seen(pid())?.state === 'T', 10_000, 'it is stopped')
    await terminal.shows(/Stopped/)
    expect([terminal.fact('alternate_on'), terminal.fact('cursor_flag')]).toEqual(['0', '1'])
    terminal.type('fg; echo "then $?"')
    await terminal.shows('? help')
    terminal.press('q')
    await terminal.shows('then 0')
  })

  it('has no colours with NO_COLOR, and still marks the selection', async () => {
    const id = await agent('colourful')
    const colour = new RegExp(`${esc}\\[[0-9;]*[1-9]m`)
    const { terminal: plain } = await openTop(server.home, { NO_COLOR: '1' })
    await using both = new AsyncDisposableStack()
    both.use(plain)
    await plain.shows(new RegExp(`^❯ ${id.slice(0, 8)}`, 'm'))
    expect(plain.painted()).not.toMatch(colour)
    const { terminal: painted } = await openTop(server.home)
    both.use(painted)
    await painted.shows(new RegExp(`^❯ ${id.slice(0, 8)}`, 'm'))
    expect(painted.painted()).toMatch(colour)
    for (const terminal of [plain, painted]) terminal.press('q')
    for (const terminal of [plain, painted]) await terminal.shows('code 0')
  })
})

describe('ebb top: the server', () => {
  it('its end is reported, and the next server is found', async () => {
    const own = await startServer()
    await agent('of the first server', own)
    const { terminal } = await openTop(own.home)
    await using _ = terminal
    await terminal.shows('of the first server')
    own.ebb.signal('SIGKILL')
    await own.ebb.ended
    await terminal.shows(/✗ Retrying; last update \d\d:\d\d:\d\d\./)
    expect(terminal.screen()).toContain('of the first server')
    const next = await startServer([], { home: own.home })
    await agent('of the next server', next)
    // One pattern covers the whole screen, because the next screen may be incomplete.
    await terminal.shows(/^[^✗]*Nothing is stuck, held back or leaked\.[^✗]*of the next server[^✗]*$/)
    await next.stop()
    await terminal.shows('✗')
    terminal.press('q')
    await requireRestored(terminal, 0)
  })

  it('a server that does not answer does not delay the exit', async () => {
    const held = Promise.withResolvers<void>()
    let isSilent = false
    const proxy = await inFront((path) => {
      if (isSilent && path.startsWith('/api/agents/active')) held.resolve()
      return !isSilent
    })
    const { terminal } = await openTop(temporaryHome(), { EBB_URL: proxy.url })
    await using _ = terminal
    await terminal.shows('No agents are running.')
    isSilent = true
    await held.promise
    const pressedMs = performance.now()
    terminal.press('q')
    await terminal.shows('code 0')
    // A call to the silent server would time out after five seconds. The exit does not wait for the call.
    expect(performance.now() - pressedMs).toBeLessThan(4_500)
    await requireRestored(terminal, 0)
    proxy.close()
  })

  it('a server that is silent for too long is reported', async () => {
    const own = await startServer()
    const { terminal } = await openTop(own.home)
    await using _ = terminal
    await terminal.shows('No agents are running.')
    own.ebb.signal('SIGSTOP')
    try {
      await terminal.shows(/✗ /)
    } finally {
      own.ebb.signal('SIGCONT')
    }
    await terminal.shows('The system is clean.')
    terminal.press('q')
    await requireRestored(terminal, 0)
    await own.stop()
  })

  it('a missing server is an error, as for every other command', async () => {
    expect(await ebb(['top'], { home: temporaryHome() })).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/start one with: ebb serve\n$/),
    })
  })
})

describe('ebb top: without a terminal', () => {
  it('prints once, in whole lines, and with --json everything', async () => {
    const prompt = `x ${'long '.repeat(100)}`.trim()
    const id = await agent(prompt)
    const [text, json] = await Promise.all([ebb(['top'], { home: server.home }), ebb(['top', '--json'], { home: server.home })])
    expect([text.code, text.stderr, json.code]).toEqual([0, '', 0])
    expect(text.stdout.toString()).toMatch(
      new RegExp(
        `^1 agent · 1 process · .*\nNothing is stuck.*\nID +TYPE +PLACEMENT +STATUS +AGE +MSGS +MEMORY +PROCS +PROMPT\n${id} +command +process +running .* ${prompt}\n$`,
      ),
    )
    expect(JSON.parse(json.stdout.toString())).toMatchObject({
      agents: [{ id, processes: 1, rssBytes: expect.any(Number) }],
      totals: { agents: 1, messages: 2, processes: 1 },
      status: { isClean: false, stuck: [] },
      closes: [],
    })
  })

  it('a server that does not report memory and processes leaves them unknown', async () => {
    const id = await agent('an older server')
    const older = await inFront(
      (path) => !path.startsWith('/api/agents/usage') || '{"statusCode":404,"code":"not_found","message":"No such route."}',
    )
    const ended = await ebb(['top', '--url', older.url], { home: temporaryHome() })
    older.close()
    expect([ended.code, ended.stderr]).toEqual([0, ''])
    expect(ended.stdout.toString()).toMatch(
      new RegExp(`^1 agent · processes unknown · memory unknown · 2 messages\n[^]*\n${id} .* 2 +- +- +an older server\n$`),
    )
  })

  it('a dumb terminal gets one print, too', async () => {
    await using terminal = await Terminal.open({ EBB_HOME: server.home, E: ebbProgram, TERM: 'dumb' })
    terminal.type('$E top; echo over')
    await terminal.shows(/^0 agents · 0 processes · 0 B of memory · 0 messages\nThe system is clean\.\nover$/m)
  })
})
