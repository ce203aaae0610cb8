import { describe, expect, it } from 'vitest'
import { type Grammar, parseArguments } from '../../../src/cli/arguments.ts'
import { allCommands } from '../../../src/cli/registry.ts'

const exec: Grammar = { name: 'exec', options: ['grace', 'home', 'report', 'limitMemory'], switches: ['json', 'help'], takesCommand: true }
const status: Grammar = { name: 'status', options: ['home'], switches: ['json'] }

const parse = (...words: readonly string[]): unknown => {
  const { flags, switches, configFile, rest } = parseArguments(exec, words)
  return { flags: Object.fromEntries(flags), switches: [...switches], configFile, rest }
}
const refusal = (text: string): unknown => expect.objectContaining({ code: 'bad_usage', message: expect.stringContaining(text) })

describe('cli arguments', () => {
  it('a flag takes its value from the next word or after an equals sign', () => {
    expect(parse('--grace', '5s', '--limit-memory=2g', '--report=a=b', '--', 'cmd')).toEqual({
      flags: { grace: '5s', limitMemory: '2g', report: 'a=b' },
      switches: [],
      configFile: undefined,
      rest: ['cmd'],
    })
  })

  it('everything after -- belongs to the command', () => {
    expect(parse('--json', '--', '--json', '--', '-x', '')).toMatchObject({ switches: ['json'], rest: ['--json', '--', '-x', ''] })
  })

  it('without -- the command begins at the first word that is no flag', () => {
    expect(parse('--grace', '1s', 'npm', '--json', 'test')).toMatchObject({
      flags: { grace: '1s' },
      switches: [],
      rest: ['npm', '--json', 'test'],
    })
    expect(parse('-', '--json')).toMatchObject({ rest: ['-', '--json'] })
    expect(parse('', '--json')).toMatchObject({ rest: ['', '--json'] })
  })

  it('the last of a repeated flag counts', () => {
    expect(parse('--grace', '1s', '--grace', '2s')).toMatchObject({ flags: { grace: '2s' } })
  })

  it('a flag may have an empty value, which its setting validates', () => {
    expect(parse('--home=')).toMatchObject({ flags: { home: '' } })
    expect(parse('--home', '')).toMatchObject({ flags: { home: '' } })
  })

  it('every command takes a configuration file', () => {
    expect(parse('--config', 'f.json')).toMatchObject({ configFile: 'f.json', flags: {} })
    expect(parseArguments(status, ['--config=g.json']).configFile).toBe('g.json')
  })

  it.each([
    [['--grase', '1s'], 'has no option --grase'],
    [['--scope', 'x'], 'has no option --scope'],
    [['-g'], 'has no option -g'],
    [['-xjson'], 'has no option -xjson'],
    [['---json'], 'has no option ---json'],
    [['--Grace', '1s'], 'has no option --Grace'],
    [['--grace'], '--grace needs a value'],
    [['--config'], '--config needs a value'],
    [['--report', '--', 'true'], '--report needs a value'],
    [['--config', '--', 'true'], '--config needs a value'],
    [['--json=yes'], '--json takes no value'],
  ] as const)('%j is refused by name', (words, text) => {
    expect(() => parse(...words)).toThrow(refusal(text))
  })

  it('a command without arguments refuses them by name', () => {
    expect(() => parseArguments(status, ['now'])).toThrow(refusal('does not take "now"'))
    expect(() => parseArguments(status, ['--', 'now'])).toThrow(refusal('does not take "now"'))
    expect(parseArguments(status, ['--']).rest).toEqual([])
  })
})

const commands = await allCommands()

describe('cli commands', () => {
  it.each(commands.map((command) => [command.name, command] as const))('%s takes --home, --json and --help', (_name, command) => {
    expect(command.options).toContain('home')
    expect(command.switches).toEqual(expect.arrayContaining(['json', 'help']))
  })

  it.each(commands.map((command) => [command.name, command] as const))('the examples of %s are accepted', (_name, command) => {
    // Examples with quotes, pipes or redirections are read as a shell reads them in command-examples.test.ts.
    for (const example of command.examples.filter((one) => one.startsWith('ebb ') && !/["|>]/.test(one))) {
      const words = example
        .replace(/^ebb \S+ ?/, '')
        .split(' ')
        .filter(Boolean)
      expect(() => parseArguments(command, words)).not.toThrow()
    }
  })
})
