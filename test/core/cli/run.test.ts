import { existsSync, mkdirSync, readdirSync, rmdirSync, unlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Ended, ebb, type RunningEbb, startEbb, temporaryHome } from '../../support/home.ts'
import { openBooks } from '../../support/ledger-file.ts'
import { type Json, startServer, type TestServer } from '../../support/server.ts'
import { survivors, waitUntil } from '../../support/world.ts'

/** `ebb run`, with the running server and with an engine of its own. */

const sh = (script: string): readonly string[] => ['--', 'sh', '-c', script]
const stubborn = sh('trap "" TERM INT; echo ready; while :; do sleep 1000; done')
const lines = (ended: Ended): Json[] =>
  ended.stdout
    .toString()
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line))

let server: TestServer

beforeAll(async () => {
  server = await startServer()
})

afterAll(async () => await server.stop())

const waitForError = (run: RunningEbb, text: string): Promise<void> =>
  waitUntil(() => run.errorOutput().includes(text), 10_000, `standard error contains "${text}"`)

describe.each(['the running server', 'an engine of its own'])('ebb run on %s', (where) => {
  const hasServer = where === 'the running server'
  const home = (): string => (hasServer ? server.home : temporaryHome())
  const left = (home: string): readonly string[] => (existsSync(join(home, 'archive')) ? readdirSync(join(home, 'archive')) : [])

  it("prints the agent's output on stdout and stderr, and keeps nothing of the agent", async () => {
    const at = home()
    const ended = await ebb(['run', 'command', 'some', 'input', ...sh('cat; echo; echo oops >&2')], { home: at })
    expect([ended.code, ended.stdout.toString(), ended.stderr]).toEqual([0, 'some input\n', 'oops\n'])
    const status = await ebb(['status'], { home: at })
    expect(status).toMatchObject({ code: 0, stdout: Buffer.from('The system is clean.\n') })
    expect([left(at), hasServer ? [] : openBooks(at)]).toEqual([[], []])
  })

  it("the exit code is 0, 1 or 130, by the agent's end", async () => {
    const at = home()
    const [well, badly, late, wrong] = await Promise.all([
      ebb(['run', 'synthetic', 'hello', 'there'], { home: at }),
      ebb(['run', 'command', ...sh('exit 7')], { home: at }),
      ebb(['run', 'command', '--timeout', '200ms', ...sh('sleep 1000')], { home: at }),
      ebb(['run', 'command', '--', 'no-such-program'], { home: at }),
    ])
    expect([well.code, well.stdout.toString().split('\n')[0], well.stderr]).toEqual([0, 'You said: hello there', ''])
    expect([badly.code, badly.stderr]).toEqual([1, 'ebb: the agent failed: The agent exited with code 7.\n'])
    expect([late.code, late.stderr]).toEqual([1, expect.stringMatching(/longer than its timeout of 200 ms/)])
    expect([wrong.code, wrong.stderr]).toEqual([1, expect.stringMatching(/^ebb: no-such-program was not found/)])
  })

  it('with --json every message is a line, the prompt included', async () => {
    const ended = await ebb(['run', 'command', '--json', 'p', ...sh('echo one; echo two >&2')], { home: home() })
    expect(ended).toMatchObject({ code: 0, stderr: '' })
    const messages = lines(ended)
    expect(messages.map(({ sequenceNumber }) => sequenceNumber)).toEqual([1, 2, 3])
    expect(messages.map(({ type, content }) => `${type} ${content}`).toSorted()).toEqual(['error two', 'response one', 'user p'])
  })

  it('reads the prompt from standard input, and takes the folder from --cwd or the current folder', async () => {
    const cwd = join(temporaryHome(), 'work')
    mkdirSync(cwd)
    const at = home()
    const [read, here, there] = await Promise.all([
      ebb(['run', 'command', '-', '--', 'cat'], { home: at, input: 'a\nb\n' }),
      ebb(['run', 'command', '--', 'pwd'], { home: at, cwd }),
      ebb(['run', 'command', '--cwd', cwd, '--', 'pwd'], { home: at }),
    ])
    expect([read, here, there].map(({ stdout }) => stdout.toString())).toEqual(['a\nb\n', `${cwd}\n`, `${cwd}\n`])
  })

  it('Ctrl-C stops the agent and a second one forces it; everything it started is gone', async () => {
    const at = home()
    const run = startEbb(['run', 'command', ...sh('trap "exit 0" TERM; echo ready; sleep 1000 & wait')], { home: at })
    const forced = startEbb(['run', 'command', '--grace', '10m', ...stubborn], { home: at })
    await Promise.all([run.says('ready'), forced.says('ready')])
    run.signal('SIGINT')
    forced.signal('SIGTERM')
    await waitForError(forced, 'stopping the agent; repeat the signal to force it')
    forced.signal('SIGTERM')
    expect(await run.ended).toMatchObject({ code: 130, stderr: 'ebb: stopping the agent; repeat the signal to force it.\n' })
    expect(await forced.ended).toMatchObject({ code: 130 })
    expect(left(at)).toEqual([])
  })

  it('with --keep the row, the messages and the archive stay', async () => {
    const at = home()
    const ended = await ebb(['run', 'command', 'x', '--keep', '--', 'cat'], { home: at })
    expect(ended).toMatchObject({ code: 0, stdout: Buffer.from('x\n') })
    const id = /^ebb: kept as ([0-9a-f-]{36})\.\n$/.exec(ended.stderr)?.[1] ?? 'none'
    expect(left(at)).toEqual([id])
    const status = JSON.parse((await ebb(['status', '--json'], { home: at })).stdout.toString())
    expect(status).toMatchObject({ agentCount: 1, messageCount: 2, isClean: false })
    if (hasServer) expect((await server.call('DELETE', `/api/agents/${id}`)).status).toBe(204)
  })

  it('stops the agent when its reader is gone', async () => {
    const at = home()
    const endless = ['run', 'command', ...sh('while echo line; do sleep 0.01; done')]
    const through = ['sh', '-c', '{ "$@"; echo "code $?" >&2; } | head -n 1', 'sh']
    const ended = await ebb(endless, { home: at, through })
    expect(ended.stdout.toString()).toBe('line\n')
    expect(ended.stderr).toMatch(/stopping the agent[\s\S]*code 130\n$/)
  })
})

describe('ebb run: ends without a clean exit', () => {
  it('after SIGKILL of its own engine, the sentinel ends what runs', async () => {
    const home = temporaryHome()
    const run = startEbb(['run', 'command', ...stubborn], { home })
    await run.says('ready')
    run.signal('SIGKILL')
    await waitUntil(() => survivors(run.mark), 30_000, 'everything is gone')
    await waitUntil(() => openBooks(home), 30_000, 'the ledger is closed')
  })

  it('resources that cannot be released are listed with exit code 3, and released later', async () => {
    const home = temporaryHome()
    const run = startEbb(['run', 'command', '--keep', '--grace', '0s', ...stubborn], { home })
    await run.says('ready')
    // The log cannot be archived while a regular file is at the path of the archive folder.
    const archive = join(home, 'archive')
    rmdirSync(archive)
    writeFileSync(archive, '')
    const interruptedMs = performance.now()
    run.signal('SIGINT')
    await waitForError(run, 'not everything of the agent')
    // The error is printed as soon as the close fails, not at the end of the wait for the next message.
    expect(performance.now() - interruptedMs).toBeLessThan(4_500)
    expect(await run.ended).toMatchObject({ code: 3, stderr: expect.stringMatching(/not everything of the agent[^\n]*:\n {2}log /) })
    unlinkSync(archive)
    await waitUntil(() => survivors(run.mark), 30_000, 'the sentinel has finished')
    expect(await ebb(['recover'], { home })).toMatchObject({ code: 0 })
  })

  it('an agent that another client deletes counts as stopped', async () => {
    const run = startEbb(['run', 'command', ...sh('echo ready; exec sleep 1000')], { home: server.home })
    await run.says('ready')
    const [agent] = await server.get('/api/agents/active')
    expect((await server.call('DELETE', `/api/agents/${agent.id}`)).status).toBe(204)
    expect(await run.ended).toMatchObject({ code: 130, stderr: 'ebb: the agent was deleted meanwhile.\n' })
  })

  it('does not start an engine when a given server does not answer', async () => {
    const ended = await ebb(['run', 'synthetic', 'x', '--url', 'http://127.0.0.1:2'], { home: temporaryHome() })
    expect(ended).toMatchObject({ code: 1, stdout: Buffer.from(''), stderr: expect.stringMatching(/No server answers at/) })
  })
})

describe('ebb run: wrong usage', () => {
  it('exits with 2 and names what is missing', async () => {
    const home = join(temporaryHome(), 'home')
    const wrong: readonly (readonly [words: readonly string[], sentence: RegExp])[] = [
      [[], /needs a PROVIDER/],
      [['claude-code'], /needs a PROMPT/],
      [['command', 'ls'], /needs a COMMAND after "--"/],
      [['command', '-la'], /has no option -la/],
      [['synthetic', 'x', '--namespace', 'a b'], /--namespace must be a name/],
    ]
    const ends = await Promise.all(wrong.map(([words]) => ebb(['run', ...words], { home })))
    for (const [index, [, sentence]] of wrong.entries())
      expect(ends[index]).toMatchObject({ code: 2, stderr: expect.stringMatching(sentence) })
    expect(existsSync(home)).toBe(false)
  })

  it('an unknown provider or placement is refused with the server and without one', async () => {
    const [provider, placement] = await Promise.all([
      ebb(['run', 'nobody', 'x'], { home: server.home }),
      ebb(['run', 'synthetic', 'x', '--placement', 'moon'], { home: temporaryHome() }),
    ])
    expect(provider).toMatchObject({ code: 2, stderr: expect.stringMatching(/no provider "nobody"; use one of claude-code/) })
    expect(placement).toMatchObject({ code: 2, stderr: expect.stringMatching(/no placement "moon"/) })
  })
})
