import { flagOf, isOptionKey, type OptionKey, shapeOf } from '../config/options.ts'
import { EbbError } from '../core/model/errors.ts'

/** The words of a command line, read once: flags by key, switches, and the rest. */
export interface Arguments {
  readonly flags: ReadonlyMap<string, string>
  readonly switches: ReadonlySet<string>
  readonly configFile: string | undefined
  /** Words between the flags, for a command that takes some. */
  readonly words: readonly string[]
  /** After `--`; for a command that runs somebody else's, from its first word on. */
  readonly rest: readonly string[]
}

export interface Grammar {
  readonly name: string
  /** Settings that this command takes as flags. */
  readonly options: readonly OptionKey[]
  /** Flags without a value: wishes for one call, never settings. */
  readonly switches: readonly string[]
  /** Letters for switches: `-f` for `--follow`. */
  readonly letters?: Readonly<Record<string, string>>
  /** Everything from the first word on belongs to somebody else's command. */
  readonly takesCommand?: boolean
  /** Words of its own, which may stand before, between and after the flags; `--` ends the flags. */
  readonly takesWords?: Words
}

export interface Words {
  /** As the usage calls them; the one that is missing is named. */
  readonly names: readonly string[]
  readonly most: number
}

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
    // Where the words of a command line end its flags there is no value, though a file may be called so: --report=-- says that.
    if (value === undefined || (value === '--' && inline.length === 0)) throw new EbbError('bad_usage', `${flag} needs a value.`)
    const earlier = shape === 'list' || shape === 'map' ? flags.get(key) : undefined
    if (key === 'config') configFile = value
    else flags.set(key, earlier === undefined ? value : `${earlier},${value}`)
  }
  const rest = words.slice(index)
  // Who asks for help need not know the words yet.
  if (!switches.has('help')) requireWords(grammar, [...own, ...rest])
  return { flags, switches, configFile, words: own, rest }
}

/** Every command knows this one. */
const everywhere = { h: 'help' }

function switchOf({ switches, letters: own }: Grammar, flag: string): string | undefined {
  const letters: Readonly<Record<string, string>> = { ...everywhere, ...own }
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
