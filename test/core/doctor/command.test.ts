import { describe, expect, it } from 'vitest'
import { ebb, ebbProgram, temporaryHome } from '../../support/home.ts'
import { Garden } from '../../support/leftovers.ts'
import { NamespaceShell } from '../../support/namespace-shell.ts'
import { needs } from '../../support/real.ts'
import { Terminal } from '../../support/terminal.ts'
import { survivors, waitUntil } from '../../support/world.ts'

/** Runs the `ebb doctor` command in a pid namespace that contains only the processes of the test. */

function environment(garden: Garden): Record<string, string> {
  const { folder } = garden
  return { EBB_HOME: temporaryHome(), HOME: folder, TMPDIR: folder, TMUX_TMPDIR: folder, EBB_TEST_MARK: garden.mark, PWD: folder }
}

const living = (garden: Garden, command: string): number => survivors(garden.mark).filter((one) => one.command === command).length

/** Returns the shell command that starts an orphaned agent. The agent inherits EBB_HOME, as from the shell of a user who has set it. */
function plant(program: string, words = ''): string {
  return `setsid env CLAUDECODE=1 sh -c '"$0" ${words} </dev/null >/dev/null 2>&1 &' ${program}`
}

describe('ebb doctor', () => {
  needs('gcc', 'unshare', 'root')

  it('reports a clean machine in one line', async () => {
    await using garden = new Garden()
    await using shell = new NamespaceShell(environment(garden))
    const said = await shell.run(`cd ${garden.folder}; ${ebbProgram} doctor; echo code $?`)
    expect(said).toMatch(/^No leftovers of other agent runs: .* This machine is clean\.\ncode 0$/m)
    expect(said).toContain('claude-code not installed: claude is not on the PATH')
    const fixed = await shell.run(`${ebbProgram} doctor --fix --yes; echo code $?`)
    expect(fixed).toMatch(/This machine is clean\.\ncode 0$/)
  })

  it('shows leftovers as text and as JSON, and exits with 0', async () => {
    await using garden = new Garden()
    await using shell = new NamespaceShell(environment(garden))
    const program = garden.program('claude')
    await shell.run(`cd ${garden.folder}; ${plant(program, '--token abc123secret')}`)
    await waitUntil(() => living(garden, 'claude') === 1, 20_000, 'it runs')
    const said = await shell.run(`${ebbProgram} doctor; echo code $?`)
    expect(said).toMatch(/^Agents: .* in 1 process\n {2}sure {5}claude \(pid \d+\): .*claude --token \*\*\*$/m)
    expect(said).toMatch(/"ebb doctor --fix" would end it: .* in 1 process\. It asks first/)
    expect(said).toMatch(/\ncode 0$/)
    expect(said).not.toContain('abc123secret')
    const json = JSON.parse(await shell.run(`${ebbProgram} doctor --json`))
    expect(json).toMatchObject({
      containment: expect.any(String),
      providers: [{ type: 'claude-code', program: 'claude', path: null }, {}, {}, {}],
      settings: [],
      unseen: [],
      totals: { found: { count: 1, processes: 1 }, fixable: { count: 1 } },
      leftovers: [
        {
          id: expect.stringMatching(/^process:\d+:\d+$/),
          kind: 'agent',
          what: expect.any(String),
          evidence: expect.arrayContaining([expect.stringContaining('CLAUDECODE=1')]),
          sure: 'sure',
          since: expect.stringMatching(/^\d{4}-.*Z$/),
          ageMs: expect.any(Number),
          memoryBytes: expect.any(Number),
          sizeBytes: 0,
          processes: [{ pid: expect.any(Number), startTime: expect.any(String) }],
          paths: [],
          fixes: true,
          fix: expect.stringContaining('SIGTERM'),
        },
      ],
    })
    expect(json).not.toHaveProperty('fixed')
  })

  it('lists files in a container as likely only, because processes outside may share them', async () => {
    await using garden = new Garden()
    await using shell = new NamespaceShell(environment(garden))
    await shell.run(`cd ${garden.folder}; mkdir gemini-shell-x`)
    const { leftovers } = JSON.parse(await shell.run(`${ebbProgram} doctor --json`))
    expect(leftovers).toMatchObject([
      { kind: 'folder', sure: 'likely', evidence: expect.arrayContaining(['No visible gemini process of this user is running.']) },
    ])
  })

  it('ends leftovers with --fix --yes, and reports the proof', async () => {
    await using garden = new Garden()
    await using shell = new NamespaceShell(environment(garden))
    await shell.run(`cd ${garden.folder}; ${plant(garden.program('claude'))}`)
    await shell.run(`setsid sh -c '"$0" </dev/null >${garden.folder}/mine.log 2>&1 &' ${garden.program('opencode')}`)
    await waitUntil(() => living(garden, 'claude') === 1 && living(garden, 'opencode') === 1, 20_000, 'they run')
    const said = await shell.run(`${ebbProgram} doctor --fix --yes --json; echo code $?`)
    expect(said).toMatch(/\ncode 0$/)
    const { fixed, leftovers } = JSON.parse(said.slice(0, said.lastIndexOf('\n')))
    expect(fixed).toContainEqual({
      id: expect.any(String),
      what: expect.stringContaining('claude'),
      outcome: 'gone',
      steps: [{ step: 'terminate', took: expect.any(Number) }],
      says: 'Two consecutive scans of /proc found no process of it.',
    })
    expect(living(garden, 'claude')).toBe(0)
    expect(living(garden, 'opencode')).toBe(1)
    expect(fixed).toHaveLength(1)
    expect(leftovers.find(({ what }: { what: string }) => what.startsWith('opencode'))).toMatchObject({ sure: 'perhaps' })
  })

  it('finishes --fix when the reader of its output has exited', async () => {
    await using garden = new Garden()
    await using shell = new NamespaceShell(environment(garden))
    const ignoring = garden.script('claude', 'trap "" TERM; while :; do sleep 10000; done')
    await shell.run(`cd ${garden.folder}; ${plant(ignoring)}`)
    await waitUntil(() => living(garden, 'sleep') === 1, 20_000, 'it ignores SIGTERM')
    await shell.run(`${ebbProgram} doctor --fix --yes | true; while pgrep -f 'doctor --fix' >/dev/null; do sleep 0.05; done`)
    expect(living(garden, 'claude') + living(garden, 'sleep')).toBe(0)
  })

  it('lists leftovers that could not be ended, and exits with 3', async () => {
    await using garden = new Garden()
    await using shell = new NamespaceShell(environment(garden))
    const folder = `${garden.folder}/gemini-shell-x`
    await shell.run(`cd ${garden.folder}; mkdir -p ${folder}/in; mount -t tmpfs none ${folder}/in`)
    const said = await shell.run(`${ebbProgram} doctor --fix --yes; echo code $?; umount ${folder}/in`)
    expect(said).toMatch(/^ {2}LEFT {5}temporary shell files of gemini: .*\n.*another file system is mounted there; unmount it first/m)
    expect(said).toMatch(/^1 leftover could not be ended; see above\.\ncode 3$/m)
  })

  it('never ends its own ancestors', async () => {
    await using garden = new Garden()
    await using shell = new NamespaceShell(environment(garden))
    const result = `${garden.folder}/result`
    const script = garden.script(
      'claude',
      `${ebbProgram} doctor --home "$H" --fix --yes >${result}.part; echo "code $?" >>${result}.part; mv ${result}.part ${result}; sleep 10000; :`,
    )
    await shell.run(`setsid env H="$EBB_HOME" CLAUDECODE=1 sh -c '"$0" </dev/null >/dev/null 2>&1 &' ${script}`)
    const said = await shell.run(`while [ ! -e ${result} ]; do sleep 0.05; done; cat ${result}`)
    expect(said).toMatch(/This machine is clean\.\ncode 0$/)
    // `claude` is the script, and possibly a child that the script has forked and that has not yet called exec.
    expect(living(garden, 'claude')).toBeGreaterThan(0)
  })
})

describe('ebb doctor --fix', () => {
  needs('gcc', 'unshare', 'root')

  it('does nothing without an answer, and accepts an answer through a pipe', async () => {
    await using garden = new Garden()
    await using shell = new NamespaceShell(environment(garden))
    await shell.run(`cd ${garden.folder}; ${plant(garden.program('claude'))}`)
    await waitUntil(() => living(garden, 'claude') === 1, 20_000, 'it runs')
    expect(await shell.run(`${ebbProgram} doctor --fix </dev/null 2>&1; echo code $?`)).toMatch(
      /it received no answer; .* --yes\.\ncode 2$/,
    )
    // Standard input is a pipe that stays open, and to which no process writes.
    const open = await shell.run(`mkfifo open; ${ebbProgram} doctor --fix <>open 2>&1; echo code $?`)
    expect(open).toMatch(/it received no answer; .* --yes\.\ncode 2$/)
    expect(await shell.run(`echo n | ${ebbProgram} doctor --fix; echo code $?`)).toMatch(/Nothing was done\.\ncode 0$/)
    expect(living(garden, 'claude')).toBe(1)
    expect(await shell.run(`echo y | ${ebbProgram} doctor --fix; echo code $?`)).toMatch(/code 0$/)
    expect(living(garden, 'claude')).toBe(0)
  })

  it('refuses when it cannot ask', async () => {
    const home = temporaryHome()
    expect(await ebb(['doctor', '--fix', '--json'], { home })).toMatchObject({ code: 2 })
    expect(await ebb(['doctor', '--yes'], { home })).toMatchObject({ code: 2, stderr: expect.stringContaining('add --fix') })
  })
})

describe('ebb doctor --fix on a terminal', () => {
  needs('gcc', 'unshare', 'root', 'tmux')

  it('shows the leftovers, asks, and ends them only after a clear yes', async () => {
    await using garden = new Garden()
    await using terminal = await Terminal.open(environment(garden))
    terminal.resize(120, 50)
    terminal.type(`cd ${garden.folder}; unshare --pid --fork --kill-child --mount-proc env PS1='inside> ' sh -i`)
    await terminal.shows('inside>')
    terminal.type(`${plant(garden.program('claude'))}; clear`)
    await waitUntil(() => living(garden, 'claude') === 1, 20_000, 'it runs')
    // The round number is in the pattern, so that text of the previous round on the screen does not match.
    const ask = async (round: string): Promise<void> => {
      terminal.type(`clear; echo round ${round}; ${ebbProgram} doctor --fix; echo "over ${round} with $?"`)
      await terminal.shows(new RegExp(`^round ${round}$[^]*claude \\(pid[^]*End it\\? \\[y/N\\]`, 'm'))
    }
    for (const [round, answer] of ['n', '', 'maybe'].entries()) {
      await ask(String(round))
      terminal.type(answer)
      await terminal.shows(new RegExp(`^Nothing was done\\.\nover ${round} with 0`, 'm'))
    }
    await ask('of Ctrl-C')
    terminal.press('C-c')
    await terminal.shows(/^Nothing was done\.\nover of Ctrl-C/m)
    expect(living(garden, 'claude')).toBe(1)
    await ask('of yes')
    terminal.type('y')
    await terminal.shows(/1 of 1 gone, proven\.\nover of yes with 0/)
    expect(living(garden, 'claude')).toBe(0)
  })
})
