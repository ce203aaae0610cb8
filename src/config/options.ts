import { isAbsolute, join, resolve } from 'node:path'
import { parseDuration } from '../domain/duration.ts'
import { EbbError } from '../domain/errors.ts'
import type { LogLevel } from '../ports/log.ts'
import { type ContainmentName, containmentNames } from '../ports/process.ts'

/** Every setting once: its key, what it means, and how its text is read. `--kebab-case` and `EBB_UPPER_SNAKE` follow from the key. */

interface Option<T> {
  readonly help: string
  readonly placeholder: string
  readonly fallback: T
  readonly parse: (text: string, name: string) => T
}

const option = <T>(placeholder: string, help: string, fallback: T, parse: Option<T>['parse']): Option<T> => ({
  help,
  placeholder,
  fallback,
  parse,
})

export const options = {
  home: option<string | undefined>('DIR', 'where Ebb keeps its database, logs and sockets', undefined, parseFolder),
  containment: option<'auto' | ContainmentName>(
    'auto|cgroup|subreaper|scan',
    'how processes are held; auto takes the strongest there is',
    'auto',
    choice('auto', ...containmentNames),
  ),
  grace: option('5s', 'how long a process may take to leave by itself', 5_000, parseDuration),
  timeout: option<number | undefined>('DURATION', 'end the command after this time', undefined, parseDuration),
  report: option<string | undefined>('FILE', 'write the report as JSON; "-" is standard error', undefined, (text) => text),
  limitMemory: option<number | undefined>('SIZE', 'the most memory the run may take, such as 2g', undefined, parseSize),
  limitPids: option<number | undefined>('N', 'the most processes the run may have at a time', undefined, parseCount),
  logLevel: option<LogLevel>(
    'debug|info|warn|error|silent',
    'what to say on standard error',
    'warn',
    choice('debug', 'info', 'warn', 'error', 'silent'),
  ),
  reaperInterval: option('60s', 'how often the reaper looks for what nobody closed', 60_000, parseDuration),
  reaperMinimumAge: option('60s', 'how old something unrecorded must be before the reaper ends it', 60_000, parseDuration),
} satisfies Record<string, Option<unknown>>

export type Options = typeof options
export type OptionKey = keyof Options
export type Settings = { readonly [K in OptionKey]: ReturnType<Options[K]['parse']> | Options[K]['fallback'] }

export const isOptionKey = (key: string): key is OptionKey => Object.hasOwn(options, key)
export const flagOf = (key: string): string => `--${key.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`
export const variableOf = (key: string): string => `EBB_${key.replaceAll(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase()}`

function choice<const C extends string>(...allowed: readonly C[]): (text: string, name: string) => C {
  return (text, name) => {
    const found = allowed.find((candidate) => candidate === text)
    if (found === undefined) throw new EbbError('bad_usage', `${name} must be one of ${allowed.join(', ')}, not "${text}".`)
    return found
  }
}

/** Nothing is not "here": an unset variable in a script must not make a home of whatever folder it stands in. */
function parseFolder(text: string, name: string): string {
  if (text === '') throw new EbbError('bad_usage', `${name} must name a folder.`)
  return resolve(text)
}

function parseSize(text: string, name: string): number {
  const match = /^(\d{1,12})(k|m|g|t)?b?$/i.exec(text)
  if (!match) throw new EbbError('bad_usage', `${name} must be a size such as 512m or 2g, not "${text}".`)
  return Number(match[1]) * 1_024 ** ['', 'k', 'm', 'g', 't'].indexOf((match[2] ?? '').toLowerCase())
}

function parseCount(text: string, name: string): number {
  if (!/^[1-9]\d{0,8}$/.test(text)) throw new EbbError('bad_usage', `${name} must be a whole number from 1 on, not "${text}".`)
  return Number(text)
}

/** `$XDG_STATE_HOME/ebb`, else `~/.local/state/ebb`. */
export function defaultHome(env: NodeJS.ProcessEnv): string {
  if (env.XDG_STATE_HOME && isAbsolute(env.XDG_STATE_HOME)) return join(env.XDG_STATE_HOME, 'ebb')
  if (env.HOME) return join(env.HOME, '.local', 'state', 'ebb')
  throw new EbbError('home_unusable', 'There is no HOME to keep the database in; set EBB_HOME or give --home.')
}
