import { isAbsolute, join, resolve } from 'node:path'
import { parseDuration } from '../domain/duration.ts'
import { EbbError } from '../domain/errors.ts'
import { namespaceName } from '../domain/names.ts'
import type { RetentionRule } from '../domain/retention.ts'
import { parseSpawnRule } from '../domain/spawn-rule.ts'
import type { LogLevel } from '../ports/log.ts'
import { type ContainmentName, containmentNames } from '../ports/process.ts'
import { parseByAgentType, parseDays } from './retention.ts'

/** Every setting once: its key, what it means, and how its text is read. `--kebab-case` and `EBB_UPPER_SNAKE` follow from the key. */

interface Option<T> {
  readonly help: string
  /**
   * `switch`: on the command line it takes no value. `list`: it may be given more than once; as one text, with commas.
   * `map`: the same, with entries `NAME=VALUE`; in a file it is an object.
   */
  readonly shape?: 'switch' | 'list' | 'map'
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

/** On or off; off unless it is said. */
const toggle = (help: string): Option<boolean> => ({ ...option('true|false', help, false as boolean, parseToggle), shape: 'switch' })

const list = (placeholder: string, help: string, parseItem = (item: string, _name: string) => item): Option<readonly string[]> => ({
  ...option<readonly string[]>(placeholder, help, [], (text, name) => parseList(text, name).map((item) => parseItem(item, name))),
  shape: 'list',
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
  timeout: option<number | undefined>('DURATION', 'end the command, or the agent, after this time', undefined, parseDuration),
  report: option<string | undefined>('FILE', 'write the report as JSON; "-" is standard error', undefined, (text) => text),
  limitMemory: option<number | undefined>('SIZE', 'the most memory the run may take, such as 2g', undefined, parseSize),
  limitPids: option<number | undefined>('N', 'the most processes the run may have at a time', undefined, parseCount),
  logLevel: option<LogLevel>(
    'debug|info|warn|error|silent',
    'what to say on standard error',
    'warn',
    choice('debug', 'info', 'warn', 'error', 'silent'),
  ),
  host: option('127.0.0.1', 'the address to listen on; another one than loopback needs a token', '127.0.0.1', parseText),
  port: option('4400', 'the port to listen on; 0 takes a free one', 4_400, parsePort),
  store: option<string | undefined>('sqlite:FILE', 'where the records are; by default in the home', undefined, parseStore),
  token: option<string | undefined>(
    'TOKEN',
    'what callers must show; needed when others than this machine may call',
    undefined,
    parseToken,
  ),
  allowHost: list('HOST', 'another name under which the server may be called'),
  allowOrigin: list('URL', 'the origin of web pages that may call the server', parseOrigin),
  testEndpoints: toggle('offer the routes that reset the world, for tests'),
  keepOnExit: toggle('leave what is marked to be kept for the next start; agents that are processes are always ended'),
  exitGiveUp: option<'never' | 'afterDeadline'>(
    'never|afterDeadline',
    'what becomes at the exit of a log that cannot be archived: it stays on the books, or is given up',
    'never',
    choice('never', 'afterDeadline'),
  ),
  whileStdin: toggle('leave, as at a signal, when standard input ends: for a server that belongs to another program'),
  url: option<string | undefined>('URL', 'the server to talk to, instead of the one of the home', undefined, parseUrl),
  namespace: option<string | undefined>('NAME', 'the namespace that is meant', undefined, parseNamespace),
  placement: option<string | undefined>('process', 'where the agent runs', undefined, parseText),
  cwd: option<string | undefined>('DIR', 'the folder the agent works in; by default this one', undefined, parseFolder),
  model: option<string | undefined>('MODEL', 'the model, for providers that have several', undefined, parseText),
  keep: toggle('keep row, messages and archive of the agent when it has ended'),
  maxAgents: option('500', 'how many agents may run at once', 500, parseCount),
  minFree: option('256m', 'how much of the disk must be free for a launch', 268_435_456, parseSize),
  limitLog: option('2g', 'how much an agent may write on each of its streams before it is ended', 2_147_483_648, parseSize),
  limitMessages: option('1000000', 'how many messages an agent may write before it is ended', 1_000_000, parseCount),
  taskConcurrent: option('50', 'how many agents of one task may run at once', 50, parseCount),
  taskAgents: option('500', 'how many agents may ever be deployed into one task', 500, parseCount),
  taskDepth: option('5', 'how many generations of agents a task may have: agents that agents deployed', 5, parseCount),
  spawnRule: list(
    'PARENT>CHILD[:MAX]',
    'which types of agents may deploy which, and how many of them at once; "*" is any, "orchestrator" is no agent; none: all may',
    parseRule,
  ),
  stuckThreshold: option('30m', 'how long an agent of a task may report nothing before it counts as stuck', 1_800_000, parseDuration),
  stuckAction: option<'report' | 'end'>(
    'report|end',
    'what becomes of an agent that counts as stuck: it is told of, or ended',
    'report',
    choice('report', 'end'),
  ),
  archiveMaxAgeDays: option('30', 'after how many days the archive of an agent goes; "never" keeps it', 30, parseDays),
  archiveMaxBytes: option<number | undefined>('SIZE', 'how much all archives may take together; the oldest go', undefined, parseSize),
  archiveTaskMaxBytes: option<number | undefined>('SIZE', 'how much the archives of one task may take', undefined, parseSize),
  archiveCompressAfterDays: option('7', 'after how many days archives are compressed; "never" leaves them', 7, parseDays),
  archiveByAgentType: {
    ...option(
      'TYPE=DAYS|TYPE.KEY=VALUE',
      'what is different for a type of agents: maxAgeDays, maxBytes (of all of the type), compressAfterDays',
      new Map() as ReadonlyMap<string, RetentionRule>,
      (text, name) => parseByAgentType(parseList(text, name), name, parseSize),
    ),
    shape: 'map' as const,
  },
  agentTimeout: option('24h', 'how old an agent may become, unless its launch says so', 86_400_000, parseDuration),
  idleTimeout: option('60m', 'how long an agent may be silent, unless its launch says so', 3_600_000, parseDuration),
  reaperInterval: option('60s', 'how often the reaper looks for what nobody closed', 60_000, parseDuration),
  reaperMinimumAge: option('60s', 'how old something unrecorded must be before the reaper ends it', 60_000, parseDuration),
} satisfies Record<string, Option<unknown>>

export type Options = typeof options
export type OptionKey = keyof Options
export type Settings = { readonly [K in OptionKey]: ReturnType<Options[K]['parse']> | Options[K]['fallback'] }

export const shapeOf = (key: OptionKey): Option<unknown>['shape'] => (options[key] as Option<unknown>).shape
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

function parseText(text: string, name: string): string {
  if (text === '') throw new EbbError('bad_usage', `${name} needs a value.`)
  return text
}

/** As the server takes it: it becomes a name in logs and records. */
function parseNamespace(text: string, name: string): string {
  if (!namespaceName.pattern.test(text)) throw new EbbError('bad_usage', `${name} must be a name of ${namespaceName.says}, not "${text}".`)
  return text
}

function parsePort(text: string, name: string): number {
  if (!/^\d{1,5}$/.test(text) || Number(text) > 65_535)
    throw new EbbError('bad_usage', `${name} must be a port from 0 to 65535, not "${text}".`)
  return Number(text)
}

function parseStore(text: string, name: string): string {
  const file = /^sqlite:(.+)$/s.exec(text)?.[1]
  if (file === undefined) throw new EbbError('bad_usage', `${name} must be sqlite:FILE, not "${text}".`)
  return resolve(file)
}

/** It travels in a header: visible ASCII, and long enough that nobody guesses it. */
function parseToken(text: string, name: string): string {
  if (!/^[\x21-\x7e]{8,512}$/.test(text)) throw new EbbError('bad_usage', `${name} must have 8 to 512 visible characters and no spaces.`)
  return text
}

function parseToggle(text: string, name: string): boolean {
  if (!/^(true|false|1|0|yes|no|on|off)$/i.test(text)) throw new EbbError('bad_usage', `${name} must be true or false, not "${text}".`)
  return /^(true|1|yes|on)$/i.test(text)
}

function parseList(text: string, name: string): readonly string[] {
  const items = text.split(',').map((item) => item.trim())
  if (items.includes('')) throw new EbbError('bad_usage', `${name} holds an empty entry.`)
  return items
}

/** As a browser sends it, or it would never match: no path, and without the port that its scheme implies. */
function parseOrigin(text: string, name: string): string {
  if (!/^[a-z][a-z0-9+.-]*:\/\/[^\s/?#@*]+\/?$/i.test(text) || !URL.canParse(text))
    throw new EbbError('bad_usage', `${name} must be an origin such as http://localhost:3000, not "${text}".`)
  const { origin } = new URL(text)
  // Of a scheme that is not the web's, such as an extension's, URL knows no origin.
  return origin === 'null' ? text.replace(/\/$/, '').toLowerCase() : origin
}

function parseUrl(text: string, name: string): string {
  const url = URL.parse(text)
  if (url?.protocol !== 'http:' && url?.protocol !== 'https:')
    throw new EbbError('bad_usage', `${name} must be a URL such as http://localhost:4400, not "${text}".`)
  return url.origin
}

function parseSize(text: string, name: string): number {
  const match = /^(\d{1,12})(k|m|g|t)?b?$/i.exec(text)
  if (!match) throw new EbbError('bad_usage', `${name} must be a size such as 512m or 2g, not "${text}".`)
  return Number(match[1]) * 1_024 ** ['', 'k', 'm', 'g', 't'].indexOf((match[2] ?? '').toLowerCase())
}

function parseRule(text: string, name: string): string {
  if (!parseSpawnRule(text))
    throw new EbbError('bad_usage', `${name} must be a rule such as "orchestrator>*" or "builder>tester:3", not "${text}".`)
  return text
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
