import { describe, expect, it } from 'vitest'
import { type Ended, ebb, temporaryHome } from '../../support/home.ts'

/** The commands and options that docs/reference promises, with their usage. */
const promised: Readonly<Record<string, { readonly words: string; readonly options: readonly string[] }>> = {
  exec: { words: 'COMMAND', options: ['--grace', '--timeout', '--report', '--containment'] },
  serve: {
    words: '[options]',
    options: ['--host', '--port', '--home', '--store', '--test-endpoints', '--token', '--allow-origin', '--allow-host', '--keep-on-exit'],
  },
  run: { words: 'PROVIDER PROMPT…', options: ['--placement', '--cwd', '--model', '--timeout', '--keep', '--url'] },
  ps: { words: '', options: ['--url', '--token'] },
  show: { words: 'ID', options: ['--url', '--token'] },
  logs: { words: 'ID', options: ['-f', '--url', '--token'] },
  stop: { words: 'ID…', options: ['--force', '--url', '--token'] },
  rm: { words: 'ID…', options: ['--force', '--url', '--token'] },
  reset: { words: '', options: ['--namespace', '--force', '--url', '--token'] },
  status: { words: '', options: ['--url', '--token'] },
  recover: { words: '', options: [] },
  reap: { words: '', options: ['--dry-run'] },
  doctor: { words: '', options: ['--fix', '--yes'] },
}

const everywhere = ['--json', '--home', '--config', '--log-level', '-h, --help']
const text = ({ stdout }: Ended): string => stdout.toString()

/** A home without a server: help needs none. */
const cli = (words: readonly string[]): Promise<Ended> => ebb(words, { home: temporaryHome() })

describe('cli: help', () => {
  it('the help of every command names its options and shows examples', async () => {
    const names = Object.keys(promised)
    const helps = await Promise.all(names.map((name) => cli([name, '--help'])))
    for (const [index, name] of names.entries()) {
      const { words = '', options = [] } = promised[name] ?? {}
      expect(helps[index], name).toMatchObject({ code: 0, stderr: '' })
      const help = text(helps[index] as Ended)
      expect(help).toContain(`\nUsage: ebb ${name}`)
      expect(help).toContain(words)
      for (const option of [...options, ...everywhere]) expect(help, `${name} ${option}`).toMatch(new RegExp(`^  (-f, )?${option}\\b`, 'm'))
      expect(help).toMatch(new RegExp(`\nExamples:\n(  ebb ${name}\\b.*\n)+$`))
    }
  })

  it('is the same for --help, -h and "help COMMAND", whatever the other arguments are', async () => {
    const [long, short, before, between] = await Promise.all([
      cli(['stop', '--help']),
      cli(['stop', '-h']),
      cli(['help', 'stop']),
      cli(['stop', 'abcd', '-h', '--force']),
    ])
    for (const ended of [short, before, between]) expect([ended.code, text(ended)]).toEqual([0, text(long)])
  })

  it('without a command lists all commands, and an unknown command is refused', async () => {
    const [overview, none, option] = await Promise.all([cli([]), cli(['fly']), cli(['ps', '-x'])])
    expect(overview.code).toBe(0)
    for (const name of Object.keys(promised)) expect(text(overview)).toMatch(new RegExp(`^  ${name} +\\S`, 'm'))
    expect(none).toMatchObject({ code: 2, stderr: 'ebb: There is no command "fly"; "ebb help" lists them.\n' })
    expect(option).toMatchObject({ code: 2, stderr: 'ebb: "ebb ps" has no option -x; "ebb ps --help" lists what it takes.\n' })
  })
})

describe('cli: arguments', () => {
  it('missing and surplus arguments are named', async () => {
    const wrong: readonly (readonly [words: readonly string[], sentence: string])[] = [
      [['show'], '"ebb show" needs the ID of an agent; "ebb show --help" shows how.'],
      [['logs', '-f'], '"ebb logs" needs the ID of an agent; "ebb logs --help" shows how.'],
      [['stop', '--force'], '"ebb stop" needs the ID of an agent; "ebb stop --help" shows how.'],
      [['rm'], '"ebb rm" needs the ID of an agent; "ebb rm --help" shows how.'],
      [['show', 'abcd', 'ef01'], '"ebb show" does not take "ef01"; "ebb show --help" lists what it takes.'],
      [['ps', 'abcd'], '"ebb ps" does not take "abcd"; "ebb ps --help" lists what it takes.'],
      [['reset', 'all'], '"ebb reset" does not take "all"; "ebb reset --help" lists what it takes.'],
      [['status', 'now'], '"ebb status" does not take "now"; "ebb status --help" lists what it takes.'],
    ]
    const ends = await Promise.all(wrong.map(([words]) => cli(words)))
    expect(ends.map(({ code, stderr }) => [code, stderr])).toEqual(wrong.map(([, sentence]) => [2, `ebb: ${sentence}\n`]))
  })
})
