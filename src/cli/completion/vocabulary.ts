import { flagOf, type OptionKey, options, shapeOf } from '../../config/options.ts'
import type { CommandDefinition } from '../command.ts'
import { switchHelp } from '../help.ts'

/** The commands, options and values that a completion script offers, for all shells. */

export interface Vocabulary {
  readonly commands: readonly CompletedCommand[]
}

export interface CompletedCommand {
  readonly name: string
  readonly summary: string
  readonly flags: readonly CompletedFlag[]
  /** The possible first words after the name of the command. */
  readonly words: readonly string[]
  /** Whether the words are ids of agents, which the script gets from the running server. */
  readonly takesAgents: boolean
  /** Whether the words are the command line of another program. */
  readonly takesCommand: boolean
}

export interface CompletedFlag {
  readonly name: string
  readonly help: string
  /** The kind of value, or the list of possible values. */
  readonly value: 'none' | 'file' | 'folder' | 'any' | readonly string[]
}

const firstWords: Readonly<Record<string, readonly string[]>> = { archive: ['ls', 'show', 'prune'], completion: ['bash', 'zsh', 'fish'] }

export function vocabularyOf(commands: readonly CommandDefinition[], providers: readonly string[]): Vocabulary {
  const help: CompletedCommand = {
    name: 'help',
    summary: 'show how a command is used',
    flags: [],
    words: commands.map(({ name }) => name),
    takesAgents: false,
    takesCommand: false,
  }
  return { commands: [...commands.map((command) => completed(command, providers)), help] }
}

function completed(command: CommandDefinition, providers: readonly string[]): CompletedCommand {
  return {
    name: command.name,
    summary: command.summary,
    flags: [
      ...command.options.map((key) => ({ name: flagOf(key), help: options[key].help, value: valueKind(key) })),
      { name: '--config', help: 'settings as JSON', value: 'file' as const },
      ...command.switches.map((name) => ({ name: `--${name}`, help: switchHelp[name] ?? '', value: 'none' as const })),
    ],
    words: command.name === 'run' ? providers : (firstWords[command.name] ?? []),
    takesAgents: command.takesWords?.names.includes('the ID of an agent') ?? false,
    takesCommand: command.takesCommand ?? false,
  }
}

/** Derives the kind of value from the placeholder: `DIR`, `FILE`, or a list of words. */
function valueKind(key: OptionKey): CompletedFlag['value'] {
  if (shapeOf(key) === 'switch') return 'none'
  const { placeholder } = options[key]
  if (placeholder === 'DIR') return 'folder'
  if (placeholder === 'FILE') return 'file'
  const words = placeholder.split('|')
  return words.length > 1 && words.every((word) => /^[a-z][A-Za-z]*$/.test(word)) ? words : 'any'
}

/** Quotes a text for a POSIX shell, in single quotes. */
export function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`
}
