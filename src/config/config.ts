import { existsSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { EbbError, sentence } from '../domain/errors.ts'
import { cookieName } from '../domain/identity.ts'
import { defaultHome, flagOf, isOptionKey, options, type Settings, variableOf } from './options.ts'

/** Environment, file and flags → one frozen Config. Flag beats variable beats file; what is unknown or bad is refused by name. */
export interface Config extends Omit<Settings, 'home'> {
  readonly home: string
  /** The cookie of the Ebb that we are inside of, if any: a mark, never a setting. */
  readonly inheritedCookie: string | undefined
  /** The environment that commands inherit. */
  readonly environment: Readonly<Record<string, string>>
}

export interface Sources {
  readonly flags: ReadonlyMap<string, string>
  readonly configFile?: string
  readonly env?: NodeJS.ProcessEnv
}

export function loadConfig({ flags, configFile, env = process.env }: Sources): Config {
  const values = new Map<string, unknown>()
  const home = resolve(flags.get('home') ?? env.EBB_HOME ?? defaultHome(env))
  for (const [key, text, name] of [...fromFile(configFile ?? env.EBB_CONFIG, home), ...fromEnvironment(env), ...fromFlags(flags)]) {
    if (!isOptionKey(key)) throw new EbbError('bad_usage', `There is no setting ${name}; "ebb help" lists them.`)
    values.set(key, options[key].parse(text, name))
  }
  const settings = Object.fromEntries(Object.entries(options).map(([key, { fallback }]) => [key, values.get(key) ?? fallback]))
  return Object.freeze({ ...(settings as unknown as Settings), home, inheritedCookie: env[cookieName], environment: plainEnvironment(env) })
}

type Source = readonly [key: string, text: string, name: string]

function fromFile(named: string | undefined, home: string): readonly Source[] {
  const file = named ?? join(home, 'ebb.config.json')
  if (named === undefined && !existsSync(file)) return []
  let content: unknown
  try {
    content = JSON.parse(readFileSync(file, 'utf8'))
  } catch (error) {
    throw new EbbError('bad_usage', `The configuration ${file} cannot be read: ${sentence(error)}.`)
  }
  if (typeof content !== 'object' || content === null || Array.isArray(content))
    throw new EbbError('bad_usage', `The configuration ${file} must be a JSON object.`)
  return Object.entries(content).map(([key, value]) => [key, String(value), `"${key}" in ${file}`])
}

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
