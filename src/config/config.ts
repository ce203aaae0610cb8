import { existsSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { EbbError, sentence } from '../core/model/errors.ts'
import { environmentTagName } from '../core/model/identity.ts'
import { joinList } from './option.ts'
import { defaultHome, flagOf, isOptionKey, type OptionKey, options, type Settings, shapeOf, variableOf } from './options.ts'
import { mapEntries } from './retention.ts'

/**
 * The settings of one process, read from flags, environment and file, and frozen. A flag overrides a variable, and a variable
 * overrides the file. An unknown key or an invalid value is refused, and the error names it.
 */
export interface Config extends Omit<Settings, 'home'> {
  readonly home: string
  /** The environment tag of the Ebb run that this process is part of, if any. It is a mark, never a setting. */
  readonly inheritedTag: string | undefined
  /** The environment that commands inherit. */
  readonly environment: Readonly<Record<string, string>>
  /** The environment that agents inherit: that of commands without Ebb's settings, because one of the settings is a token. */
  readonly agentEnvironment: Readonly<Record<string, string>>
}

export interface Sources {
  readonly flags: ReadonlyMap<string, string>
  readonly configFile?: string
  readonly env?: NodeJS.ProcessEnv
}

export function loadConfig({ flags, configFile, env = process.env }: Sources): Config {
  const values = new Map<string, unknown>()
  // An empty variable counts as unset, as for every setting.
  const file = configFile ?? (env.EBB_CONFIG || undefined)
  const fromFiles = file === undefined ? fromHome(resolve(flags.get('home') || env.EBB_HOME || defaultHome(env))) : fromFile(file)
  for (const [key, text, name] of [...fromFiles, ...fromEnvironment(env), ...fromFlags(flags)]) {
    if (!isOptionKey(key)) throw new EbbError('bad_usage', `There is no setting ${name}; docs/reference/configuration.md lists them.`)
    values.set(key, options[key].parse(text, name))
  }
  const home = (values.get('home') as string | undefined) ?? defaultHome(env)
  const settings = Object.fromEntries(Object.entries(options).map(([key, { fallback }]) => [key, values.get(key) ?? fallback]))
  const environment = plainEnvironment(env)
  const ours = new Set(['EBB_CONFIG', ...Object.keys(options).map(variableOf)])
  const agentEnvironment = Object.fromEntries(Object.entries(environment).filter(([name]) => !ours.has(name)))
  return Object.freeze({ ...(settings as unknown as Settings), home, inheritedTag: env[environmentTagName], environment, agentEnvironment })
}

type Source = readonly [key: string, text: string, name: string]

function fromHome(home: string): readonly Source[] {
  const file = join(home, 'ebb.config.json')
  const found = existsSync(file) ? fromFile(file) : []
  const moved = found.find(([key]) => key === 'home')
  if (moved)
    throw new EbbError('bad_usage', `${moved[2]} cannot set the home, because the file is in it; use --home, EBB_HOME or --config.`)
  return found
}

function fromFile(file: string): readonly Source[] {
  let content: unknown
  try {
    content = JSON.parse(readFileSync(file, 'utf8'))
  } catch (error) {
    throw new EbbError('bad_usage', `The configuration ${file} cannot be read: ${sentence(error).replaceAll(/\s+/g, ' ')}.`)
  }
  if (typeof content !== 'object' || content === null || Array.isArray(content))
    throw new EbbError('bad_usage', `The configuration ${file} must be a JSON object.`)
  const entries = Object.entries(content).flatMap(ungroup)
  return [
    ...mapsIn(entries, file),
    ...entries
      .filter(([written]) => !inMap(written))
      .flatMap(([written, value]): Source[] => {
        const key = keyOf(written)
        const name = `"${written}" in ${file}`
        if (isOptionKey(key) && shapeOf(key) === 'list' && Array.isArray(value))
          return value.length === 0 ? [] : [[key, joinList(value.map((entry) => plain(entry, name))), name]]
        return [[key, isOptionKey(key) ? plain(value, name) : '', name]]
      }),
  ]
}

function plain(value: unknown, name: string): string {
  if (typeof value !== 'object') return String(value)
  throw new EbbError('bad_usage', `${name} must be a text or a number, in the form that its flag takes.`)
}

const keyOf = (written: string): string => written.replaceAll(/\.([a-z])/g, (_, letter: string) => letter.toUpperCase())

/**
 * Finds the setting of the shape `map` that a key is an entry of: `archive.byAgentType.reviewer` is the entry `reviewer` of the setting
 * `archiveByAgentType`.
 */
function inMap(name: string): { readonly key: OptionKey; readonly path: readonly string[] } | undefined {
  const parts = name.split('.')
  for (let length = 1; length <= parts.length; length++) {
    const key = keyOf(parts.slice(0, length).join('.'))
    if (isOptionKey(key) && shapeOf(key) === 'map') return { key, path: parts.slice(length) }
  }
  return undefined
}

/** Joins all entries of one map into one text, in the form that its flag takes. */
function mapsIn(entries: readonly (readonly [string, unknown])[], file: string): readonly Source[] {
  const texts = new Map<OptionKey, { readonly written: string; readonly items: string[] }>()
  for (const [written, value] of entries) {
    const found = inMap(written)
    if (!found) continue
    const text = texts.get(found.key) ?? { written, items: [] }
    // A value that is a text already has the form that the flag takes.
    text.items.push(...(found.path.length === 0 && typeof value === 'string' ? [value] : mapEntries(value, found.path)))
    texts.set(found.key, text)
  }
  return [...texts].flatMap(([key, { written, items }]): Source[] =>
    items.length === 0 ? [] : [[key, items.join(','), `"${written}" in ${file}`]],
  )
}

/** Flattens a group: `{"exit": {"giveUp": …}}` becomes `exit.giveUp`, which means `exitGiveUp`. */
function ungroup([key, value]: [string, unknown]): [string, unknown][] {
  if (isOptionKey(key) || typeof value !== 'object' || value === null || Array.isArray(value)) return [[key, value]]
  // A key that names no group of settings is kept, also when its value is an empty object, so that the error for unknown settings names it.
  if (!isGroup(key)) return [[key, value]]
  return Object.entries(value).map(([inner, content]) => [`${key}.${inner}`, content])
}

const isGroup = (key: string): boolean =>
  Object.keys(options).some((option) => option.startsWith(key) && /^[A-Z]/.test(option.slice(key.length)))

function fromEnvironment(env: NodeJS.ProcessEnv): readonly Source[] {
  return Object.keys(options).flatMap((key): Source[] => {
    const value = env[variableOf(key)]
    return value === undefined || value === '' ? [] : [[key, value, variableOf(key)]]
  })
}

function fromFlags(flags: ReadonlyMap<string, string>): readonly Source[] {
  return [...flags].map(([key, value]) => [key, value, flagOf(key)])
}

function plainEnvironment(env: NodeJS.ProcessEnv): Record<string, string> {
  return Object.fromEntries(Object.entries(env).filter((entry): entry is [string, string] => entry[1] !== undefined))
}
