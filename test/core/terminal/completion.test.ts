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

/** The completion scripts, in their shells. */

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
    expect(at('archive', '')).toEqual(['ls', 'show', 'prune'])
    expect(at('completion', '')).toEqual(['bash', 'zsh', 'fish'])
    expect(at('help', 'sta')).toEqual(['status'])
    expect(at('exec', '--', 'basena')).toContain('basename')
    expect(at('nonsense', 'x')).toEqual([])
    expect(at('serve', '--home', `${dirname(ebbProgram)}/../bi`)).toEqual([`${dirname(ebbProgram)}/../bin`])
  })

  it('offers the agents of the running server, and nothing without one', async () => {
    const file = await scriptFor('bash')
    const id = await server.command(['sleep', '1000'])
    expect(await firstOffer(file, server.home, 'stop', id.slice(0, 5))).toEqual([id])
    expect(complete(file, server.home, 'stop', '--f')).toEqual(['--force'])
    expect(complete(file, temporaryHome(), 'show', '')).toEqual([])
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

  it('completes the command after "--", and its files', async (context) => {
    if (!isInstalled('zsh')) context.skip('needs zsh: it is not installed')
    const folder = temporaryHome()
    mkdirSync(join(folder, 'sub'))
    const env = { EBB_HOME: temporaryHome(), F: await scriptFor('zsh'), PATH: `${dirname(ebbProgram)}:${process.env.PATH ?? ''}` }
    await using terminal = await Terminal.open(env)
    terminal.type(`cd ${folder}; exec env PS1="zsh> " zsh -f`)
    await terminal.shows('zsh>')
    terminal.type('autoload -Uz compinit; compinit -u -D; source $F')
    terminal.press('ebb exec -- basenam', 'Tab')
    await terminal.shows('ebb exec -- basename')
    terminal.press('su', 'Tab')
    await terminal.shows('ebb exec -- basename sub/')
  })
})

it('completion: another shell is refused by name', async () => {
  expect(await ebb(['completion', 'csh'], { home: temporaryHome() })).toMatchObject({
    code: 2,
    stderr: 'ebb: "ebb completion" supports bash, zsh and fish, not "csh".\n',
  })
})
