import { describe, expect, it } from 'vitest'
import { type Completion, complete, type Settings } from '../../../src/cli/completion/candidates.ts'
import { completionScripts } from '../../../src/cli/completion/scripts.ts'
import { allCommands, findCommand } from '../../../src/cli/registry.ts'

const lookedUp: [string, Settings][] = []

const completed = async (...words: readonly string[]): Promise<Completion> =>
  await complete(words, {
    findCommand,
    allCommands,
    providers: async () => ['claude-code', 'codex', 'command'],
    agents: async (which, settings) => {
      lookedUp.push([which, settings])
      return [{ word: 'a1', description: 'an agent' }, { word: 'a2' }, { word: 'b1' }]
    },
  })

const words = async (...line: readonly string[]): Promise<readonly string[]> => {
  const { kind, candidates } = await completed(...line)
  expect(kind).toBe('words')
  return candidates.map(({ word }) => word)
}

describe('completion candidates', () => {
  it('are commands with their summaries for the first word, and for "help"', async () => {
    expect(await words('st')).toEqual(['status', 'stop'])
    expect(await words()).toEqual(await words(''))
    expect(await words('--')).toEqual(['--help', '--version'])
    expect(await words('help', 'sta')).toEqual(['status'])
    expect(await words('help', 'status', '')).toEqual([])
    expect((await completed('status')).candidates[0]?.description).toMatch(/\w/)
  })

  it('are never commands for programs', async () => {
    expect((await words('')).filter((word) => word.startsWith('_'))).toEqual([])
  })

  it('are the options of the command, with their help', async () => {
    expect(await words('ps', '--n')).toEqual(['--namespace'])
    expect(await words('ps', '-')).toEqual(expect.arrayContaining(['--home', '--config', '--json', '--all']))
    const { candidates } = await completed('ps', '-')
    expect(candidates.filter(({ description = '' }) => description === '')).toEqual([])
  })

  it('are the values of an option, in the next word or after an equals sign', async () => {
    expect(await words('exec', '--containment', 's')).toEqual(['subreaper', 'scan'])
    expect(await words('exec', '--containment=s')).toEqual(['--containment=subreaper', '--containment=scan'])
    expect(await words('exec', '--timeout', '')).toEqual([])
    expect(await words('exec', '--nonsense=x')).toEqual([])
    expect(await completed('exec', '--home', '')).toEqual({ kind: 'folders', candidates: [] })
    expect(await completed('exec', '--report=a')).toEqual({ kind: 'files', candidates: [] })
    expect(await completed('ps', '--config', '')).toEqual({ kind: 'files', candidates: [] })
  })

  it('are agents, for commands that take them and as often as they take them', async () => {
    expect(await words('show', 'a')).toEqual(['a1', 'a2'])
    expect(await words('show', 'a1', '')).toEqual([])
    expect(await words('rm', 'a1', '--force', '')).toEqual(['a2', 'b1'])
    expect(await words('rm', '--', 'a')).toEqual(['a1', 'a2'])
    expect(await words('stop', '-')).not.toContain('a1')
    expect(await words('ps', '')).toEqual([])
  })

  it('are running agents only, for commands that need a running one', async () => {
    lookedUp.length = 0
    for (const command of ['stop', 'attach', 'show']) await words(command, '')
    expect(lookedUp.map(([which]) => which)).toEqual(['running agents', 'running agents', 'agents'])
  })

  it('are the agents of the server that the line names', async () => {
    lookedUp.length = 0
    await words('stop', '--home', '/h', '--token=t', '--config', 'c.json', '--force', '')
    expect(lookedUp.map(([, { flags, configFile }]) => [Object.fromEntries(flags), configFile])).toEqual([
      [{ home: '/h', token: 't' }, 'c.json'],
    ])
  })

  it('are providers, subcommands and shells', async () => {
    expect(await words('run', 'c')).toEqual(['claude-code', 'codex', 'command'])
    expect(await words('run', '--keep', '')).toEqual(['claude-code', 'codex', 'command'])
    expect(await words('run', 'codex', 'c')).toEqual([])
    expect(await words('archive', '')).toEqual(['ls', 'show', 'prune'])
    expect(await words('completion', '')).toEqual(['bash', 'zsh', 'fish'])
  })

  it.each([
    [['exec', ''], 1],
    [['exec', 'npm', '--home', ''], 1],
    [['exec', '--json', '--grace', '5s', 'npm', 'te'], 4],
    [['exec', '--grace=5s', '--', ''], 3],
    [['exec', '--', 'npm', '--', ''], 2],
    [['run', 'command', 'input', '--', 'npm', ''], 4],
  ])('of %j are those of the command line that begins at word %d', async (line, at) => {
    expect(await completed(...line)).toEqual({ kind: `command ${at}`, candidates: [] })
  })

  it('are none for an unknown command', async () => {
    expect(await words('nonsense', '')).toEqual([])
    expect(await words('toString', '')).toEqual([])
  })
})

it('completion scripts know no command or option', async () => {
  const names = (await allCommands()).map(({ name }) => name).filter((name) => name !== 'completion')
  for (const script of Object.values(completionScripts))
    expect(names.filter((name) => new RegExp(`\\bebb ${name}\\b|--${name}\\b`).test(script))).toEqual([])
})
