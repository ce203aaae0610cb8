import { describe, expect, it } from 'vitest'
import { type Ended, ebb, ebbProgram, startEbb, temporaryHome } from '../../support/home.ts'
import { needs } from '../../support/real.ts'
import type { Json } from '../../support/server.ts'
import { useServer } from '../../support/shared-server.ts'
import { Terminal } from '../../support/terminal.ts'

/** Output for programs: one whole record per line, without colours, and without an error when the reader stops reading. */

const server = useServer()
const esc = '\u001b'
const text = ({ stdout }: Ended): string => stdout.toString()

async function agents(): Promise<readonly string[]> {
  const ids = await Promise.all(
    ['short', `long ${'界 '.repeat(400)}end`].map((prompt) => server.command(['sh', '-c', 'echo ready; exec sleep 1000'], { prompt })),
  )
  for (const id of ids) await server.get(`/api/agents/${id}/messages?since=1&wait=10000`)
  return ids
}

describe('cli in a pipe', () => {
  it('nothing is cut, every record is a line, and there are no colours', async () => {
    const ids = await agents()
    const env = { COLUMNS: '40', FORCE_COLOR: undefined }
    const [ps, status, show, top] = await Promise.all(
      [['ps'], ['status'], ['show', ids[1] ?? ''], ['top']].map((words) => ebb(words, { home: server.home, env })),
    )
    for (const ended of [ps, status, show, top] as Ended[])
      expect([ended.code, ended.stderr, text(ended).includes(esc)]).toEqual([0, '', false])
    expect(text(ps as Ended)).toMatch(new RegExp(`^${ids[1]} +command .* long (界 ){400}end$`, 'm'))
    expect(
      text(ps as Ended)
        .trimEnd()
        .split('\n'),
    ).toHaveLength(3)
    expect(text(status as Ended)).toMatch(/^KIND +HELD +CLOSING +STUCK\nlog +4 +0 +0$/m)
    expect(text(show as Ended)).toMatch(/^Prompt +long (界 ){400}end$/m)
    expect(text(show as Ended)).toMatch(/^Resource +process-tree sh in \S+ \S+: held$/m)
    expect(text(top as Ended)).toMatch(/ long (界 ){400}end$/m)
  })

  it("a conversation is only the agent's output, without marks, colours and summary", async () => {
    const ended = await ebb(['run', 'command', 'x', '--', 'sh', '-c', 'echo one; echo; echo "  two"; echo three >&2'], {
      home: server.home,
    })
    expect([ended.code, text(ended), ended.stderr]).toEqual([0, 'one\n\n  two\n', 'three\n'])
  })

  it('colours need FORCE_COLOR, and NO_COLOR takes precedence', async () => {
    await agents()
    const [forced, never] = await Promise.all(
      [{ FORCE_COLOR: '1' }, { FORCE_COLOR: '1', NO_COLOR: '1' }].map((env) => ebb(['ps'], { home: server.home, env })),
    )
    expect([text(forced as Ended).includes(`${esc}[32mrunning${esc}[39m`), text(never as Ended).includes(esc)]).toEqual([true, false])
  })

  it.each([
    ['ps', '--all'],
    ['status'],
    ['top'],
    ['help'],
    ['ps', '--help'],
    ['completion', 'bash'],
    ['reap', '--dry-run'],
    ['recover'],
    ['archive', 'ls'],
  ])('"%s %s" ends without an error when its reader is gone', async (...words) => {
    await agents()
    const run = startEbb(words.filter(Boolean), { home: server.home, input: '' })
    run.child.stdout?.destroy()
    expect(await run.ended).toMatchObject({ code: 0, signal: null, stderr: '' })
  })

  it('a reader gets all output, even more than a pipe holds', async () => {
    // The prompt is longer than the 64 kB that a pipe holds (pipe(7)).
    const prompt = `${'a page of it '.repeat(8_000)}end`
    await server.command(['sleep', '1000'], { prompt })
    // The output goes through a shell, which connects it to a pipe. The streams of a Node child process are sockets, which hold more.
    const through = ['sh', '-c', '"$@" | cat', 'sh']
    const [ps, json] = await Promise.all([['ps'], ['ps', '--json']].map((words) => ebb(words, { home: server.home, through })))
    expect(text(ps as Ended)).toMatch(/ a page of it .* end\n$/)
    expect(JSON.parse(text(json as Ended))).toMatchObject([{ session: { prompt } }])
  })

  it('a full disk is reported, with exit code 1', async () => {
    const ended = await ebb(['ps'], { home: server.home, through: ['sh', '-c', '"$@" > /dev/full', 'sh'] })
    expect(ended).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^ebb: The output could not be written \(.*ENOSPC.*\); check where it goes\.\n$/),
    })
  })
})

describe('cli on a terminal', () => {
  needs('tmux')

  const colour = new RegExp(`${esc}\\[[0-9;]*[1-9]m`)

  it.each([
    ['{}', {}, true],
    ['NO_COLOR', { NO_COLOR: '1' }, false],
    ['an empty NO_COLOR', { NO_COLOR: '' }, true],
    ['TERM=dumb', { TERM: 'dumb' }, false],
  ] as const)('with %s, ps, status, show and run use colours: %s', async (_name, env, isPainted) => {
    const [id = ''] = await agents()
    await using terminal = await Terminal.open({ EBB_HOME: server.home, E: ebbProgram, ...env }, { columns: 90, rows: 50 })
    terminal.type(`$E ps; $E status; $E show ${id}; $E run command hi -- true; echo over`)
    await terminal.shows(/^✓ completed[\s\S]*^over$/m)
    expect(colour.test(terminal.painted())).toBe(isPainted)
  })

  it.each(['stty cols 0', 'stty cols 1', 'stty cols 65000'])('an extreme width does no harm: %s', async (stty) => {
    const [id = ''] = await agents()
    await using terminal = await Terminal.open({ EBB_HOME: server.home, E: ebbProgram }, { columns: 100, rows: 60 })
    terminal.type(`${stty}; $E ps; $E status; $E show ${id.slice(0, 8)}; $E run command hi -- echo hello; stty cols 100; echo over`)
    await terminal.shows(/^over/m)
    expect(terminal.screen()).toContain(id.slice(0, 8))
    expect(terminal.screen()).not.toMatch(/Error|at file:/)
  })

  it('escape sequences of prompts, names, output and server errors do not reach the terminal', async () => {
    const trick = `${esc}]0;stolen\u0007${esc}[2J\u009b2Jwords`
    const id = await server.command(['sh', '-c', 'printf "out\\033[2J\\033]0;stolen\\007put\\n"; exec sleep 1000'], {
      prompt: trick,
      configuration: { command: ['sh', '-c', 'printf "out\\033[2J\\033]0;stolen\\007put\\n"; exec sleep 1000'], conversationName: 'x' },
    })
    await server.get(`/api/agents/${id}/messages?since=1&wait=10000`)
    await using terminal = await Terminal.open({ EBB_HOME: server.home, E: ebbProgram }, { columns: 110, rows: 60 })
    terminal.type(`echo first; $E ps; $E show ${id}; $E logs ${id}; $E show "$(printf '\\033[2Jnobody')"; echo over`)
    await terminal.shows(/^over$/m)
    const shown = terminal.screen()
    expect(shown).toMatch(/^first$/m)
    expect(shown).toMatch(/^output$/m)
    expect(shown).toMatch(/There is no agent ".*nobody"/)
    expect(shown.match(/words$/gm)).toHaveLength(3)
    expect(terminal.fact('pane_title')).not.toContain('stolen')
  })
})

it('ps: scripts see the status of ended agents, too', async () => {
  const id = await server.command(['false'])
  await server.get(`/api/agents/${id}/status?wait=10000`)
  const ended = await ebb(['ps', '--all'], { home: server.home })
  expect(text(ended)).toMatch(new RegExp(`^${id} +command +process +failed +\\d+s +1 *$`, 'm'))
  expect(((await server.get('/api/agents')) as Json[]).map(({ status }) => status)).toEqual(['failed'])
  expect(await ebb(['ps'], { home: temporaryHome() })).toMatchObject({ code: 1 })
})
