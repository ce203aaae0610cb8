import { flagOf, type OptionKey, options, shapeOf } from '../../config/options.ts'
import { EbbError } from '../../domain/errors.ts'
import type { CommandEntry } from './cli.ts'

export function renderHelp(commands: readonly CommandEntry[], name?: string): string {
  if (name === undefined) return overview(commands)
  const command = commands.find((candidate) => candidate.name === name)
  if (!command) throw new EbbError('bad_usage', `There is no command "${name}"; "ebb help" lists them.`)
  const flags = [
    ...command.options.map((key) => [settingFlag(key), options[key].help] as const),
    ['--config FILE', 'settings as JSON, with camelCase keys'] as const,
    ...command.switches.map((name) => [switchFlag(command, name), switchHelp[name] ?? ''] as const),
  ]
  return `${command.summary}\n\nUsage: ${command.usage}\n\nOptions:\n${table(flags)}\n\nExamples:\n${command.examples.map((example) => `  ${example}\n`).join('')}`
}

function settingFlag(key: OptionKey): string {
  return shapeOf(key) === 'switch' ? flagOf(key) : `${flagOf(key)} ${options[key].placeholder}`
}

/** With its letter, where it has one: `-f, --follow`. */
export function switchFlag({ letters = {} }: Pick<CommandEntry, 'letters'>, name: string): string {
  const letter = Object.keys(letters).find((one) => letters[one] === name) ?? (name === 'help' ? 'h' : undefined)
  return letter === undefined ? `--${name}` : `-${letter}, --${name}`
}

const switchHelp: Readonly<Record<string, string>> = {
  json: 'print JSON for scripts',
  help: 'show this help',
  all: 'also those that have ended',
  follow: 'go on until the agent has ended',
  force: 'skip the polite steps; never the proof',
  'dry-run': 'show what would be done, and do nothing',
}

function overview(commands: readonly CommandEntry[]): string {
  return `Ebb runs agents, or any command, and proves that nothing they created outlives them.

Usage: ebb COMMAND [options]

Commands:
${table(commands.map((command) => [command.name, command.summary]))}

Examples:
  ebb exec -- npm test          run a command; whatever it leaves running is ended, and the end is proven
  ebb serve                     the control plane; the commands about agents talk to it
  ebb run codex "Fix the test"  one agent in the foreground
  ebb status                    is the world clean?
  ebb help exec                 all options of a command
`
}

function table(rows: readonly (readonly [string, string])[]): string {
  const width = Math.max(...rows.map(([left]) => left.length))
  return rows.map(([left, right]) => `  ${left.padEnd(width)}  ${right}`).join('\n')
}
