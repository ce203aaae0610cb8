import { flagOf, isOptionKey, options, shapeOf } from '../../config/options.ts'
import type { Offer } from '../arguments.ts'
import type { CommandDefinition } from '../command.ts'
import { switchHelp } from '../help.ts'

/** What a shell offers at a place of a command line. The scripts in `scripts.ts` ask for it with `ebb __complete`. */

export interface Completion {
  /** The shell offers the candidates, or its own files or folders, or it completes the command line that begins at this word. */
  readonly kind: 'words' | 'files' | 'folders' | `command ${number}`
  readonly candidates: readonly Candidate[]
}

export interface Candidate {
  readonly word: string
  readonly description?: string
}

/** What a completion reads. Each part is loaded only if it is needed, because the user waits for the answer. */
export interface Sources {
  readonly findCommand: (name: string) => Promise<CommandDefinition | undefined>
  readonly allCommands: () => Promise<readonly CommandDefinition[]>
  readonly providers: () => Promise<readonly string[]>
  /** The agents of the server that the options of the line name. */
  readonly agents: (which: 'agents' | 'running agents', settings: Settings) => Promise<readonly Candidate[]>
}

/** The options of the line so far, which may name another home or server. */
export interface Settings {
  readonly flags: ReadonlyMap<string, string>
  readonly configFile: string | undefined
}

const nothing: Completion = { kind: 'words', candidates: [] }

/** Completes the last of the words after `ebb`. It may be empty. */
export async function complete(words: readonly string[], sources: Sources): Promise<Completion> {
  const current = words.at(-1) ?? ''
  const [name] = words.slice(0, -1)
  if (name === undefined || (name === 'help' && words.length === 2))
    return matching(await commandNames(sources, name === undefined), current)
  const command = await sources.findCommand(name)
  if (!command) return nothing
  const line = readLine(command, words.slice(0, -1))
  if (line.commandAt !== undefined) return { kind: `command ${line.commandAt}`, candidates: [] }
  if (line.pending !== undefined) return valuesOf(line.pending, current, '')
  if (!line.hasDashes && current.startsWith('-')) {
    const [flag = '', ...value] = current.split('=')
    if (value.length === 0) return matching(flagsOf(command), current)
    const key = keyOf(command, flag)
    return key === undefined ? nothing : valuesOf(key, value.join('='), `${flag}=`)
  }
  if (command.takesCommand) return { kind: `command ${words.length - 1}`, candidates: [] }
  const { offers, most = 0 } = command.takesWords ?? {}
  if (line.given.length >= most) return nothing
  return matching(await offered(offers?.(line.given), line, sources), current)
}

async function commandNames({ allCommands }: Sources, isFirst: boolean): Promise<readonly Candidate[]> {
  const commands = (await allCommands()).map(({ name, summary }) => ({ word: name, description: summary }))
  if (!isFirst) return commands
  return [...commands, { word: 'help', description: 'show how a command is used' }, { word: '--help' }, { word: '--version' }]
}

interface Line extends Settings {
  /** The words of the command so far. */
  readonly given: readonly string[]
  readonly hasDashes: boolean
  /** The option whose value comes next. */
  readonly pending: string | undefined
  /** The place of the first word of another program's command line. */
  readonly commandAt: number | undefined
}

/** Reads the words before the cursor as `parseArguments` does, but ignores errors, because the line is unfinished. */
function readLine(command: CommandDefinition, words: readonly string[]): Line {
  const flags = new Map<string, string>()
  const given: string[] = []
  let pending: string | undefined
  let hasDashes = false
  let commandAt: number | undefined
  for (let at = 1; at < words.length && commandAt === undefined; at++) {
    const word = words[at] ?? ''
    if (pending !== undefined) {
      flags.set(pending, word)
      pending = undefined
    } else if (word === '--' && !hasDashes) {
      hasDashes = true
      if (command.takesCommand || command.takesWords?.hasCommand?.(given)) commandAt = at + 1
    } else if (hasDashes || !word.startsWith('-') || word === '-') {
      if (command.takesCommand) commandAt = at
      given.push(word)
    } else {
      const [flag = '', ...value] = word.split('=')
      const key = keyOf(command, flag)
      if (key !== undefined && value.length > 0) flags.set(key, value.join('='))
      else if (key !== undefined && !(isOptionKey(key) && shapeOf(key) === 'switch')) pending = key
    }
  }
  const configFile = flags.get('config')
  flags.delete('config')
  return { flags, configFile, given, hasDashes, pending, commandAt }
}

function keyOf({ options: keys }: CommandDefinition, flag: string): string | undefined {
  return flag === '--config' ? 'config' : keys.find((key) => flagOf(key) === flag)
}

function flagsOf({ options: keys, switches }: CommandDefinition): readonly Candidate[] {
  return [
    ...keys.map((key) => ({ word: flagOf(key), description: options[key].help })),
    { word: '--config', description: 'settings as JSON, with camelCase keys' },
    ...switches.map((name) => ({ word: `--${name}`, description: switchHelp[name] ?? '' })),
  ]
}

/** The values of an option, derived from its placeholder: `DIR`, `FILE`, or a list of words. */
function valuesOf(key: string, current: string, prefix: string): Completion {
  const placeholder = isOptionKey(key) ? options[key].placeholder : 'FILE'
  if (placeholder === 'DIR') return { kind: 'folders', candidates: [] }
  if (placeholder === 'FILE') return { kind: 'files', candidates: [] }
  const words = placeholder.split('|')
  if (words.length < 2 || !words.every((word) => /^[a-z][A-Za-z]*$/.test(word))) return nothing
  return matching(
    words.map((word) => ({ word: prefix + word })),
    prefix + current,
  )
}

async function offered(offer: Offer | undefined, line: Line, sources: Sources): Promise<readonly Candidate[]> {
  if (offer === undefined) return []
  if (offer === 'providers') return (await sources.providers()).map((word) => ({ word }))
  if (offer === 'agents' || offer === 'running agents')
    return (await sources.agents(offer, line)).filter(({ word }) => !line.given.includes(word))
  return offer.map((word) => ({ word }))
}

function matching(candidates: readonly Candidate[], current: string): Completion {
  return { kind: 'words', candidates: candidates.filter(({ word }) => word.startsWith(current)) }
}
