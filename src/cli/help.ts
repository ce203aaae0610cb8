import { flagOf, type OptionKey, options, shapeOf } from '../config/options.ts'
import { EbbError } from '../core/model/errors.ts'
import type { CommandDefinition } from './command.ts'
import { wrap } from './terminal/flow.ts'

/** With a width, lines are wrapped to it. Without one, each option is one line. */
export function renderHelp(commands: readonly CommandDefinition[], name?: string, width?: number): string {
  if (name === undefined) return overview(commands, width)
  const command = commands.find((candidate) => candidate.name === name)
  if (!command) throw new EbbError('bad_usage', `There is no command "${name}"; "ebb help" lists them.`)
  const flags = [
    ...command.options.map((key) => [settingFlag(key), options[key].help] as const),
    ['--config FILE', 'settings as JSON, with camelCase keys'] as const,
    ...command.switches.map((name) => [switchFlag(command, name), switchHelp[name] ?? ''] as const),
  ]
  const lines = (text: string, margin: string): string => (width === undefined ? text : wrap(text, width, margin).join('\n'))
  const examples = command.examples.map((example) => `${lines(`  ${example}`, '      ')}\n`).join('')
  return `${lines(command.summary, '')}\n\n${lines(`Usage: ${command.usage}`, '       ')}\n\nOptions:\n${table(flags, width)}\n\nExamples:\n${examples}`
}

function settingFlag(key: OptionKey): string {
  return shapeOf(key) === 'switch' ? flagOf(key) : `${flagOf(key)} ${options[key].placeholder}`
}

/** A switch with its letter, if it has one: `-f, --follow`. */
export function switchFlag({ letters = {} }: Pick<CommandDefinition, 'letters'>, name: string): string {
  const letter = Object.keys(letters).find((key) => letters[key] === name) ?? (name === 'help' ? 'h' : undefined)
  return letter === undefined ? `--${name}` : `-${letter}, --${name}`
}

export const switchHelp: Readonly<Record<string, string>> = {
  json: 'print JSON for scripts',
  help: 'show this help',
  all: 'also list agents that have ended',
  follow: 'continue until the agent has ended',
  force: 'kill at once, and give up obligations that cannot be met in time; the end is still proven',
  fix: 'list the leftovers, ask, and end them',
  yes: 'with --fix, do not ask; for scripts',
  'dry-run': 'show what would be done, without doing it',
  elsewhere: 'also end unrecorded resources outside of this host, which are otherwise only listed',
}

const firstSteps = [
  ['ebb exec -- npm test', 'run a command, end everything that it leaves running, and prove it'],
  ['ebb serve', 'start the server, which the commands about agents use'],
  ['ebb run codex "Fix the test"', 'run one agent in the foreground'],
  ['ebb status', 'show whether the system is clean'],
  ['ebb help exec', 'show all options of a command'],
] as const

function overview(commands: readonly CommandDefinition[], width: number | undefined): string {
  const about = 'Ebb runs agents, or any command, and proves that nothing they created outlives them.'
  const listed = commands.map(({ name, summary }) => [name, summary] as const)
  return `${width === undefined ? about : wrap(about, width).join('\n')}

Usage: ebb COMMAND [options]

Commands:
${table(listed, width)}

Examples:
${table(firstSteps, width)}
`
}

function table(rows: readonly (readonly [string, string])[], width: number | undefined): string {
  const left = Math.max(...rows.map(([name]) => name.length))
  if (width === undefined) return rows.map(([name, text]) => `  ${name.padEnd(left)}  ${text}`).join('\n')
  // If the descriptions do not fit beside the options, they are placed below them.
  const margin = Math.min(left + 4, Math.floor(width / 3))
  return rows
    .map(([name, text]) => {
      const words = wrap(text, width - margin).map((line) => ' '.repeat(margin) + line)
      if (name.length + 4 > margin) return [...wrap(`  ${name}`, width, '      '), ...words].join('\n')
      return [`  ${name}`.padEnd(margin) + (words[0] ?? '').slice(margin), ...words.slice(1)].join('\n')
    })
    .join('\n')
}
