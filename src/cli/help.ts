import { flagOf, type OptionKey, options, shapeOf } from '../config/options.ts'
import { EbbError } from '../core/model/errors.ts'
import type { CommandDefinition } from './command.ts'
import { wrap } from './terminal/flow.ts'

/** On a terminal of this width no line is broken by it; elsewhere each option is one line. */
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

/** With its letter, where it has one: `-f, --follow`. */
export function switchFlag({ letters = {} }: Pick<CommandDefinition, 'letters'>, name: string): string {
  const letter = Object.keys(letters).find((one) => letters[one] === name) ?? (name === 'help' ? 'h' : undefined)
  return letter === undefined ? `--${name}` : `-${letter}, --${name}`
}

export const switchHelp: Readonly<Record<string, string>> = {
  json: 'print JSON for scripts',
  help: 'show this help',
  all: 'also those that have ended',
  follow: 'go on until the agent has ended',
  force: 'skip the polite steps; never the proof',
  fix: 'end the leftovers, after they were shown and you said yes',
  yes: 'do not ask; for scripts',
  'dry-run': 'show what would be done, and do nothing',
  elsewhere: 'also end what is on no books in the cloud or in Docker, which is otherwise only shown',
}

const firstSteps = [
  ['ebb exec -- npm test', 'run a command; whatever it leaves running is ended, and the end is proven'],
  ['ebb serve', 'the control plane; the commands about agents talk to it'],
  ['ebb run codex "Fix the test"', 'one agent in the foreground'],
  ['ebb status', 'is the world clean?'],
  ['ebb help exec', 'all options of a command'],
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
  const left = Math.max(...rows.map(([one]) => one.length))
  if (width === undefined) return rows.map(([one, other]) => `  ${one.padEnd(left)}  ${other}`).join('\n')
  // Where the words would have no room beside the options, they are below them.
  const margin = Math.min(left + 4, Math.floor(width / 3))
  return rows
    .map(([one, other]) => {
      const words = wrap(other, width - margin).map((line) => ' '.repeat(margin) + line)
      if (one.length + 4 > margin) return [...wrap(`  ${one}`, width, '      '), ...words].join('\n')
      return [`  ${one}`.padEnd(margin) + (words[0] ?? '').slice(margin), ...words.slice(1)].join('\n')
    })
    .join('\n')
}
