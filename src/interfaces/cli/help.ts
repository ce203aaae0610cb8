import { flagOf, options } from '../../config/options.ts'
import { EbbError } from '../../domain/errors.ts'
import type { CommandEntry } from './cli.ts'

export function renderHelp(commands: readonly CommandEntry[], name?: string): string {
  if (name === undefined) return overview(commands)
  const command = commands.find((candidate) => candidate.name === name)
  if (!command) throw new EbbError('bad_usage', `There is no command "${name}"; "ebb help" lists them.`)
  const flags = [
    ...command.options.map((key) => [`${flagOf(key)} ${options[key].placeholder}`, options[key].help] as const),
    ['--config FILE', 'settings as JSON, with camelCase keys'] as const,
    ...command.switches.map((name) => [`--${name}`, switchHelp[name] ?? ''] as const),
  ]
  return `${command.summary}\n\nUsage: ${command.usage}\n\nOptions:\n${table(flags)}\n\nExamples:\n${command.examples.map((example) => `  ${example}\n`).join('')}`
}

const switchHelp: Readonly<Record<string, string>> = {
  json: 'print JSON for scripts',
  help: 'show this help',
  'dry-run': 'show what would be done, and do nothing',
}

function overview(commands: readonly CommandEntry[]): string {
  return `Ebb runs agents, or any command, and proves that nothing they created outlives them.

Usage: ebb COMMAND [options]

Commands:
${table(commands.map((command) => [command.name, command.summary]))}

Examples:
  ebb exec -- npm test          run a command; whatever it leaves running is ended, and the end is proven
  ebb status                    is the world clean?
  ebb help exec                 all options of a command
`
}

function table(rows: readonly (readonly [string, string])[]): string {
  const width = Math.max(...rows.map(([left]) => left.length))
  return rows.map(([left, right]) => `  ${left.padEnd(width)}  ${right}`).join('\n')
}
