import { isAbsolute, join } from 'node:path'
import { parseDuration } from '../core/model/duration.ts'
import { EbbError } from '../core/model/errors.ts'
import type { RetentionRule } from '../core/model/retention.ts'
import type { LogLevel } from '../core/ports/log.ts'
import { type ContainmentName, containmentNames } from '../core/ports/process.ts'
import { placementNames, placementOptions } from '../placements/registry.ts'
import {
  choice,
  list,
  type Option,
  option,
  parseCount,
  parseFolder,
  parseList,
  parseNamespace,
  parseOrigin,
  parsePort,
  parseRule,
  parseSize,
  parseStore,
  parseText,
  parseToken,
  parseUrl,
  toggle,
} from './option.ts'
import { parseByAgentType, parseDays } from './retention.ts'

/** Every setting once: its key, what it means, and how its text is read. `--kebab-case` and `EBB_UPPER_SNAKE` follow from the key. */

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
  store: option<string | undefined>(
    'sqlite:FILE',
    'where the records are; by default in the home, or where its server has them',
    undefined,
    parseStore,
  ),
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
  placement: option<string | undefined>(placementNames.join('|'), 'where the agent runs', undefined, parseText),
  cwd: option<string | undefined>('DIR', 'the folder the agent works in; by default this one', undefined, parseFolder),
  model: option<string | undefined>('MODEL', 'the model, for providers that have several', undefined, parseText),
  script: option<string | undefined>('FILE', 'what the scripted model says, as JSON', undefined, parseText),
  modelPort: option('0', 'the port of the scripted model; 0 takes a free one', 0, parsePort),
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
  runner: toggle('also be a runner host: other control planes may run agents here'),
  ...placementOptions,
} satisfies Record<string, Option<unknown>>

/** The options of all placements. Every command takes them that launches agents, or finds or ends what they left. */
export const placementKeys = Object.keys(placementOptions) as (keyof typeof placementOptions)[]

export type Options = typeof options
export type OptionKey = keyof Options
export type Settings = { readonly [K in OptionKey]: ReturnType<Options[K]['parse']> | Options[K]['fallback'] }

export const shapeOf = (key: OptionKey): Option<unknown>['shape'] => (options[key] as Option<unknown>).shape
export const isOptionKey = (key: string): key is OptionKey => Object.hasOwn(options, key)
export const flagOf = (key: string): string => `--${key.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`
export const variableOf = (key: string): string => `EBB_${key.replaceAll(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase()}`

/** `$XDG_STATE_HOME/ebb`, else `~/.local/state/ebb`. */
export function defaultHome(env: NodeJS.ProcessEnv): string {
  if (env.XDG_STATE_HOME && isAbsolute(env.XDG_STATE_HOME)) return join(env.XDG_STATE_HOME, 'ebb')
  if (env.HOME) return join(env.HOME, '.local', 'state', 'ebb')
  throw new EbbError('home_unusable', 'There is no HOME to keep the database in; set EBB_HOME or give --home.')
}
