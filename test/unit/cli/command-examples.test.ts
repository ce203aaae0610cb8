import { describe, expect, it } from 'vitest'
import { parseArguments } from '../../../src/cli/arguments.ts'
import { renderHelp } from '../../../src/cli/help.ts'
import { allCommands } from '../../../src/cli/registry.ts'
import { loadConfig } from '../../../src/config/config.ts'

const all = await allCommands()

/** The arguments of an example after the shell has processed it, without redirections. */
function wordsOf(example: string): readonly string[] {
  const [line = ''] = example.split(/ [>|] /)
  return [...line.matchAll(/"((?:[^"\\]|\\.)*)"|(\S+)/g)].map(([, quoted, plain]) =>
    (quoted ?? plain ?? '').replace('$TOKEN', 'a-long-token'),
  )
}

describe.each(all.map((command) => [command.name, command] as const))('cli help of %s', (name, command) => {
  it('says what the command is for, how it is used, and what each option means', () => {
    const help = renderHelp(all, name)
    expect(help).toContain(`\n\nUsage: ${command.usage}\n\n`)
    expect(command.usage).toMatch(new RegExp(`^ebb ${name}\\b`))
    for (const line of (/Options:\n([\s\S]*?)\n\n/.exec(help)?.[1] ?? '').split('\n')) expect(line).toMatch(/^ {2}-\S.* {2}\S/)
  })

  it('fits a terminal, with the same text', () => {
    for (const width of [60, 100, 200]) {
      const help = renderHelp(all, name, width)
      for (const line of help.split('\n')) expect(line.length).toBeLessThanOrEqual(width)
      expect(help.replaceAll(/\s+/g, '')).toBe(renderHelp(all, name).replaceAll(/\s+/g, ''))
    }
  })

  it('has examples that can be parsed', () => {
    const own = command.examples.filter((example) => example.startsWith(`ebb ${name}`))
    expect(own.length).toBeGreaterThan(0)
    for (const example of own) {
      const { flags, switches } = parseArguments(command, wordsOf(example).slice(2))
      expect(() => loadConfig({ flags, env: { HOME: '/nowhere' } }), example).not.toThrow()
      expect(switches.has('help')).toBe(false)
    }
  })
})

it('cli help: the overview fits a terminal, with the same text', () => {
  for (const width of [60, 100, 200]) {
    const help = renderHelp(all, undefined, width)
    for (const line of help.split('\n')) expect(line.length).toBeLessThanOrEqual(width)
    expect(help.replaceAll(/\s+/g, '')).toBe(renderHelp(all).replaceAll(/\s+/g, ''))
  }
})
