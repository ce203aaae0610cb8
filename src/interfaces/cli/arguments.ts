import { flagOf, isOptionKey, type OptionKey, shapeOf } from '../../config/options.ts'
import { EbbError } from '../../domain/errors.ts'

/** The words of a command line, read once: flags by key, switches, and the rest. */
export interface Arguments {
  readonly flags: ReadonlyMap<string, string>
  readonly switches: ReadonlySet<string>
  readonly configFile: string | undefined
  readonly rest: readonly string[]
}

export interface Grammar {
  readonly name: string
  /** Settings that this command takes as flags. */
  readonly options: readonly OptionKey[]
  /** Flags without a value. */
  readonly switches: readonly string[]
  /** Everything from the first word on belongs to somebody else's command. */
  readonly takesCommand?: boolean
}

export function parseArguments(grammar: Grammar, words: readonly string[]): Arguments {
  const byFlag = new Map(grammar.options.map((key) => [flagOf(key), key as string]))
  const flags = new Map<string, string>()
  const switches = new Set<string>()
  let configFile: string | undefined
  let index = 0
  for (; index < words.length; index++) {
    const word = words[index] ?? ''
    if (word === '--') {
      index += 1
      break
    }
    if (!word.startsWith('-') || word === '-') break
    const [flag = '', ...inline] = word.split('=')
    const isSwitch = flag.startsWith('--') && grammar.switches.includes(flag.slice(2))
    if (isSwitch) {
      if (inline.length > 0) throw new EbbError('bad_usage', `${flag} takes no value.`)
      switches.add(flag.slice(2))
      continue
    }
    const key = flag === '--config' ? 'config' : byFlag.get(flag)
    if (key === undefined)
      throw new EbbError('bad_usage', `"ebb ${grammar.name}" has no option ${flag}; "ebb ${grammar.name} --help" lists what it takes.`)
    const shape = isOptionKey(key) ? shapeOf(key) : undefined
    const value = inline.length > 0 ? inline.join('=') : shape === 'switch' ? 'true' : words[++index]
    if (value === undefined) throw new EbbError('bad_usage', `${flag} needs a value.`)
    const earlier = shape === 'list' ? flags.get(key) : undefined
    if (key === 'config') configFile = value
    else flags.set(key, earlier === undefined ? value : `${earlier},${value}`)
  }
  const rest = words.slice(index)
  if (!grammar.takesCommand && rest.length > 0)
    throw new EbbError(
      'bad_usage',
      `"ebb ${grammar.name}" does not take "${rest[0] ?? ''}"; "ebb ${grammar.name} --help" lists what it takes.`,
    )
  return { flags, switches, configFile, rest }
}
