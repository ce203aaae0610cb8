import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { ebb, ebbProgram, nodeProgram, temporaryHome } from '../../support/home.ts'
import { needs } from '../../support/real.ts'
import { startServer } from '../../support/server.ts'
import { useServer } from '../../support/shared-server.ts'
import { Terminal } from '../../support/terminal.ts'
import { waitUntil } from '../../support/world.ts'

/** The completion scripts, in their shells. `test/unit/cli/completion.test.ts` has what is offered where. */

const server = useServer()

async function scriptFor(shell: string): Promise<string> {
  const ended = await ebb(['completion', shell], { home: temporaryHome() })
  expect([ended.code, ended.stderr]).toEqual([0, ''])
  const file = join(temporaryHome(), `ebb.${shell}`)
  writeFileSync(file, ended.stdout)
  return file
}

const isInstalled = (program: string): boolean => spawnSync('sh', ['-c', `command -v ${program}`]).status === 0

describe('completion: bash', () => {
  /** The words that bash would offer for the last argument. */
  function complete(file: string, home: string, ...rest: readonly (string | Readonly<Record<string, string>>)[]): readonly string[] {
    const words = rest.filter((part) => typeof part === 'string')
    const env = rest.find((part) => typeof part !== 'string') ?? {}
    // biome-ignore lint/suspicious/noTemplateCurlyInString: it is bash's
    const script = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _ebb; printf "%s\\n" "${COMPREPLY[@]}"'
    const { stdout, stderr, status } = spawnSync('bash', ['--norc', '-uc', script, 'bash', file, ebbProgram, ...words], {
      encoding: 'utf8',
      // With FORCE_COLOR, colour codes must not get into the words.
      env: { ...process.env, EBB_HOME: home, FORCE_COLOR: '1', ...env },
    })
    expect([status, stderr]).toEqual([0, ''])
    return stdout.split('\n').filter(Boolean)
  }

  /**
   * Requests completions until one is offered. A completion waits only 400 ms for the server, so on a busy machine it may offer nothing.
   */
  async function firstOffer(...args: Parameters<typeof complete>): Promise<readonly string[]> {
    let offered: readonly string[] = []
    const isOffered = (): boolean => {
      offered = complete(...args)
      return offered.length > 0
    }
    await waitUntil(isOffered, 30_000, 'bash offers a completion')
    return offered
  }

  it('completes commands, options, their values, providers and placements', async () => {
    const file = await scriptFor('bash')
    const home = temporaryHome()
    const at = (...words: readonly string[]): readonly string[] => complete(file, home, ...words)
    expect(at('st')).toEqual(['status', 'stop'])
    expect(at('')).toEqual(expect.arrayContaining(['exec', 'serve', 'run', 'ps', 'top', 'doctor', 'completion', 'help']))
    expect(at('ps', '--n')).toEqual(['--namespace'])
    expect(at('run', 'c')).toEqual(['claude-code', 'codex', 'command'])
    expect(at('run', 'codex', '--placement', '')).toEqual(['process', 'tmux', 'docker', 'ecs', 'remote'])
    expect(at('exec', '--containment', 's')).toEqual(['subreaper', 'scan'])
    // bash splits a word at "=" and ":", and replaces the part after it.
    expect(at('exec', '--containment', '=', 's')).toEqual(['subreaper', 'scan'])
    expect(at('exec', '--containment', '=')).toEqual(['auto', 'cgroup', 'subreaper', 'scan'])
    expect(at('ps', '--url', 'http', ':', '//localhost', ':', '1', '--n')).toEqual(['--namespace'])
    expect(at('serve', '--home', '=', `${dirname(ebbProgram)}/../bi`)).toEqual([`${dirname(ebbProgram)}/../bin`])
    expect(at('run', 'command', '--', 'basena')).toContain('basename')
    expect(at('archive', '')).toEqual(['ls', 'show', 'prune'])
    expect(at('completion', '')).toEqual(['bash', 'zsh', 'fish'])
    expect(at('help', 'sta')).toEqual(['status'])
    expect(at('exec', '--', 'basena')).toContain('basename')
    expect(at('nonsense', 'x')).toEqual([])
    expect(at('serve', '--home', `${dirname(ebbProgram)}/../bi`)).toEqual([`${dirname(ebbProgram)}/../bin`])
  })

  it('offers the agents of the running server, also of one that the line names, and nothing without one', async () => {
    const file = await scriptFor('bash')
    const id = await server.command(['sleep', '1000'])
    expect(await firstOffer(file, server.home, 'stop', id.slice(0, 5))).toEqual([id])
    expect(await firstOffer(file, temporaryHome(), 'stop', '--home', server.home, id.slice(0, 5))).toEqual([id])
    expect(complete(file, server.home, 'stop', '--f')).toEqual(['--force'])
    expect(complete(file, server.home, 'stop', id, id.slice(0, 5))).toEqual([])
    expect(complete(file, temporaryHome(), 'show', '')).toEqual([])
  })

  it('offers agents that have ended only to the commands that take them', async () => {
    const file = await scriptFor('bash')
    const id = await server.command(['true'])
    await server.get(`/api/agents/${id}/status?wait=10000`)
    expect(await firstOffer(file, server.home, 'show', id.slice(0, 5))).toEqual([id])
    expect(complete(file, server.home, 'stop', id.slice(0, 5))).toEqual([])
  })

  it('offers nothing when the server hangs, and only valid ids from an untrusted server', async () => {
    const file = await scriptFor('bash')
    await using hung = await startServer()
    const timeOf = (home: string): number => {
      const startedMs = performance.now()
      expect(complete(file, home, 'stop', '')).toEqual([])
      return performance.now() - startedMs
    }
    // Most of the measured time is the start of the program, which takes equally long without a server.
    const startMs = timeOf(temporaryHome())
    hung.ebb.signal('SIGSTOP')
    try {
      // Without a limit of its own, a completion would wait five seconds for the answer.
      expect(timeOf(hung.home) - startMs).toBeLessThan(4_000)
    } finally {
      hung.ebb.signal('SIGCONT')
    }
    const planted = join(temporaryHome(), 'planted')
    const agents = [{ id: `$(touch ${planted})` }, { id: '11111111-0000-4000-8000-000000000000' }]
    const program = join(temporaryHome(), 'fake.mjs')
    writeFileSync(
      program,
      `import { createServer } from 'node:http'
      const answer = ({ url }, response) => response.end(url.endsWith('health') ? '{"pid":1}' : ${JSON.stringify(JSON.stringify(agents))})
      const server = createServer(answer).listen(0, '127.0.0.1', () => console.log(server.address().port))`,
    )
    const fake = spawn(nodeProgram, [program], { stdio: ['ignore', 'pipe', 'inherit'] })
    try {
      const port = Number(await new Promise((resolve) => fake.stdout.once('data', (data) => resolve(String(data)))))
      const offered = await firstOffer(file, temporaryHome(), 'show', '', { EBB_URL: `http://127.0.0.1:${port}` })
      expect([offered, existsSync(planted)]).toEqual([['11111111-0000-4000-8000-000000000000'], false])
    } finally {
      fake.kill()
      await once(fake, 'exit')
    }
  })

  describe('with the Tab key', () => {
    needs('tmux')

    it('completes a word', async () => {
      const file = await scriptFor('bash')
      const path = `${dirname(ebbProgram)}:${process.env.PATH ?? ''}`
      await using terminal = await Terminal.open({ EBB_HOME: temporaryHome(), F: file, PATH: path })
      terminal.type('exec env PS1="bash> " bash --norc')
      await terminal.shows('bash>')
      terminal.type('source $F')
      terminal.press('e', 'b', 'b', 'Space', 'c', 'o', 'm', 'Tab')
      await terminal.shows('ebb completion')
      terminal.press('z', 'Tab')
      await terminal.shows('ebb completion zsh')
    })

    it('continues in a folder and quotes blanks in names', async () => {
      const file = await scriptFor('bash')
      const folder = temporaryHome()
      mkdirSync(join(folder, 'sub'))
      writeFileSync(join(folder, 'sub', 'two words'), '')
      const path = `${dirname(ebbProgram)}:${process.env.PATH ?? ''}`
      await using terminal = await Terminal.open({ EBB_HOME: temporaryHome(), F: file, PATH: path })
      terminal.type(`cd ${folder}; exec env PS1="bash> " bash --norc`)
      await terminal.shows('bash>')
      terminal.type('source $F')
      terminal.press('ebb exec -- cat su', 'Tab', 'Tab', 'Space', 'x')
      await terminal.shows(String.raw`ebb exec -- cat sub/two\ words  x`)
    })
  })
})

describe.each(['zsh', 'fish'])('completion: %s', (shell) => {
  it('accepts the script', async (context) => {
    if (!isInstalled(shell)) context.skip(`needs ${shell}: it is not installed`)
    const file = await scriptFor(shell)
    const { status, stderr } = spawnSync(shell, ['-n', file], { encoding: 'utf8' })
    expect([status, stderr]).toEqual([0, ''])
  })
})

describe('completion: zsh with the Tab key', () => {
  needs('tmux')

  async function openZsh(folder: string): Promise<Terminal> {
    const env = { EBB_HOME: temporaryHome(), F: await scriptFor('zsh'), PATH: `${dirname(ebbProgram)}:${process.env.PATH ?? ''}` }
    const terminal = await Terminal.open(env)
    terminal.type(`cd ${folder}; exec env PS1="zsh> " zsh -f`)
    await terminal.shows('zsh>')
    terminal.type('autoload -Uz compinit; compinit -u -D; source $F')
    return terminal
  }

  it('completes the command after "--", and its files', async (context) => {
    if (!isInstalled('zsh')) context.skip('needs zsh: it is not installed')
    const folder = temporaryHome()
    mkdirSync(join(folder, 'sub'))
    await using terminal = await openZsh(folder)
    terminal.press('ebb exec -- basenam', 'Tab')
    await terminal.shows('ebb exec -- basename')
    terminal.press('su', 'Tab')
    await terminal.shows('ebb exec -- basename sub/')
  })

  it('completes commands, options and folders, and lists candidates with descriptions', async (context) => {
    if (!isInstalled('zsh')) context.skip('needs zsh: it is not installed')
    const folder = temporaryHome()
    mkdirSync(join(folder, 'sub'))
    writeFileSync(join(folder, 'surplus'), '')
    await using terminal = await openZsh(folder)
    terminal.press('ebb reco', 'Tab')
    await terminal.shows('ebb recover')
    terminal.press('C-u', 'ebb recover --home=su', 'Tab')
    await terminal.shows('ebb recover --home=sub/')
    terminal.press('C-u', 'ebb exec --containment=sub', 'Tab')
    await terminal.shows('ebb exec --containment=subreaper')
    terminal.press('C-u', 'ebb stop --', 'Tab')
    await terminal.shows(/^--grace +-- how long processes may take/m)
  })
})

describe('completion: fish', () => {
  it('completes commands, options, values, folders and the command after "--", with descriptions', async (context) => {
    if (!isInstalled('fish')) context.skip('needs fish: it is not installed')
    const file = await scriptFor('fish')
    const folder = temporaryHome()
    mkdirSync(join(folder, 'sub'))
    writeFileSync(join(folder, 'surplus'), '')
    const at = (line: string): readonly string[] => {
      const { stdout, stderr, status } = spawnSync('fish', ['--no-config', '-c', `source ${file}; complete -C '${line}'`], {
        encoding: 'utf8',
        cwd: folder,
        env: { ...process.env, HOME: folder, EBB_HOME: temporaryHome(), PATH: `${dirname(ebbProgram)}:${process.env.PATH ?? ''}` },
      })
      expect([status, stderr]).toEqual([0, ''])
      return stdout.split('\n').filter(Boolean)
    }
    expect(at('ebb ru')).toEqual(['run\trun one agent in the foreground, on the running server or with an engine in this process'])
    expect(at('ebb run cl')).toEqual(['claude-code'])
    expect(at('ebb ps --n')).toEqual(['--namespace\tthe namespace to use'])
    expect(at('ebb exec --containment=s')).toEqual(['--containment=scan', '--containment=subreaper'])
    expect(at('ebb recover --home su')).toEqual(['sub/'])
    expect(at('ebb recover --home=su')).toEqual(['--home=sub/'])
    expect(at('ebb exec --report su')).toEqual(expect.arrayContaining(['sub/', 'surplus']))
    expect(at('ebb exec -- basenam').map((line) => line.split('\t')[0])).toContain('basename')
    expect(at('ebb exec -- ls su')).toEqual(expect.arrayContaining(['sub/', 'surplus']))
    expect(at('ebb nonsense x')).toEqual([])
  })
})

it('completion: an answer comes also when the settings are invalid, and nothing is written to standard error', async () => {
  const env = { EBB_GRACE: 'soon', EBB_URL: 'no address' }
  const calls = [['st'], ['stop', ''], [], ['nonsense', 'x']].map((words) =>
    ebb(['__complete', '--', ...words], { home: temporaryHome(), env }),
  )
  expect((await Promise.all(calls)).map(({ code, stdout, stderr }) => [code, String(stdout).split('\n')[0], stderr])).toEqual(
    calls.map(() => [0, 'words', '']),
  )
})

it('completion: another shell is refused by name', async () => {
  expect(await ebb(['completion', 'csh'], { home: temporaryHome() })).toMatchObject({
    code: 2,
    stderr: 'ebb: "ebb completion" supports bash, zsh and fish, not "csh".\n',
  })
})
