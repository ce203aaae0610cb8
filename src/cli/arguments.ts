import { flagOf, isOptionKey, type OptionKey, shapeOf } from '../config/options.ts'
import { EbbError } from '../core/model/errors.ts'

/** A parsed command line: flags by key, switches, and the other words. */
export interface Arguments {
  readonly flags: ReadonlyMap<string, string>
  readonly switches: ReadonlySet<string>
  readonly configFile: string | undefined
  /** The words that are neither flags nor values of flags, for a command that takes words. */
  readonly words: readonly string[]
  /** The words after `--`. With `takesCommand`, everything from the first word that is no flag. */
  readonly rest: readonly string[]
}

export interface Grammar {
  readonly name: string
  /** The settings that this command takes as flags. */
  readonly options: readonly OptionKey[]
  /** Flags without a value. They apply to one call and are never settings. */
  readonly switches: readonly string[]
  /** Short forms of switches: `-f` for `--follow`. */
  readonly letters?: Readonly<Record<string, string>>
  /** True for a command whose words, from the first word on, are the command line of another program. */
  readonly takesCommand?: boolean
  /** Words of this command. They may stand before, between and after the flags; `--` ends the flags. */
  readonly takesWords?: Words
}

export interface Words {
  /** The required words, as the usage names them. An error names the first one that is missing. */
  readonly names: readonly string[]
  readonly most: number
  /** What the shell offers for the next word, after the words that the user has typed. */
  readonly offers?: (given: readonly string[]) => Offer
  /** Whether the words after a `--` are the command line of another program. */
  readonly hasCommand?: (given: readonly string[]) => boolean
}

/** Words that the shell completes: a list, or a name for what is looked up when the user presses Tab. */
export type Offer = 'agents' | 'running agents' | 'providers' | readonly string[]

export function parseArguments(grammar: Grammar, words: readonly string[]): Arguments {
  const byFlag = new Map(grammar.options.map((key) => [flagOf(key), key as string]))
  const flags = new Map<string, string>()
  const switches = new Set<string>()
  const own: string[] = []
  let configFile: string | undefined
  let index = 0
  for (; index < words.length; index++) {
    const word = words[index] ?? ''
    if (word === '--') {
      index += 1
      break
    }
    if (!word.startsWith('-') || word === '-') {
      if (!grammar.takesWords) break
      own.push(word)
      continue
    }
    const [flag = '', ...inline] = word.split('=')
    const asSwitch = switchOf(grammar, flag)
    if (asSwitch !== undefined) {
      if (inline.length > 0) throw new EbbError('bad_usage', `${flag} takes no value.`)
      switches.add(asSwitch)
      continue
    }
    const key = flag === '--config' ? 'config' : byFlag.get(flag)
    if (key === undefined)
      throw new EbbError('bad_usage', `"ebb ${grammar.name}" has no option ${flag}; "ebb ${grammar.name} --help" lists what it takes.`)
    const shape = isOptionKey(key) ? shapeOf(key) : undefined
    const value = inline.length > 0 ? inline.join('=') : shape === 'switch' ? 'true' : words[++index]
    // A "--" after a flag ends the flags and is not its value. A file of that name can be given as --report=--.
    if (value === undefined || (value === '--' && inline.length === 0)) throw new EbbError('bad_usage', `${flag} needs a value.`)
    const earlier = shape === 'list' || shape === 'map' ? flags.get(key) : undefined
    if (key === 'config') configFile = value
    else flags.set(key, earlier === undefined ? value : `${earlier},${value}`)
  }
  const rest = words.slice(index)
  // With --help, required words may be missing.
  if (!switches.has('help')) requireWords(grammar, [...own, ...rest])
  return { flags, switches, configFile, words: own, rest }
}

/** Short forms that every command has. */
const commonLetters = { h: 'help' }

function switchOf({ switches, letters: own }: Grammar, flag: string): string | undefined {
  const letters: Readonly<Record<string, string>> = { ...commonLetters, ...own }
  if (!flag.startsWith('--')) return Object.hasOwn(letters, flag.slice(1)) ? letters[flag.slice(1)] : undefined
  return switches.includes(flag.slice(2)) ? flag.slice(2) : undefined
}

function requireWords({ name, takesCommand, takesWords }: Grammar, given: readonly string[]): void {
  if (takesCommand) return
  const { names, most } = takesWords ?? { names: [], most: 0 }
  const missing = names[given.length]
  if (missing !== undefined) throw new EbbError('bad_usage', `"ebb ${name}" needs ${missing}; "ebb ${name} --help" shows how.`)
  if (given.length > most)
    throw new EbbError('bad_usage', `"ebb ${name}" does not take "${given[most] ?? ''}"; "ebb ${name} --help" lists what it takes.`)
}
