import { isAbsolute, join } from 'node:path'
import { parseDuration } from '../core/model/duration.ts'
import { EbbError } from '../core/model/errors.ts'
import type { RetentionRule } from '../core/model/retention.ts'
import type { LogLevel } from '../core/ports/log.ts'
import { type ContainmentName, containmentNames } from '../core/ports/process.ts'
import { detachHelp, placementNames, placementOptions } from '../placements/registry.ts'
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

/** Every setting: its key, help, default and parser. The flag `--kebab-case` and the variable `EBB_UPPER_SNAKE` follow from the key. */

export const options = {
  home: option<string | undefined>('DIR', 'the folder for the database, logs and sockets', undefined, parseFolder),
  containment: option<'auto' | ContainmentName>(
    'auto|cgroup|subreaper|scan',
    'how processes are contained; auto selects the strongest containment that is available',
    'auto',
    choice('auto', ...containmentNames),
  ),
  grace: option('5s', 'how long processes may take to end before they are killed', 5_000, parseDuration),
  timeout: option<number | undefined>('DURATION', 'end the command, or the agent, after this time', undefined, parseDuration),
  report: option<string | undefined>('FILE', 'write the report to this file, as JSON; "-" is standard error', undefined, (text) => text),
  limitMemory: option<number | undefined>('SIZE', 'the maximum memory of the run, such as 2g', undefined, parseSize),
  limitPids: option<number | undefined>('N', 'the maximum number of processes of the run at the same time', undefined, parseCount),
  logLevel: option<LogLevel>(
    'debug|info|warn|error|silent',
    'the lowest level of log messages that is written to standard error',
    'warn',
    choice('debug', 'info', 'warn', 'error', 'silent'),
  ),
  host: option('127.0.0.1', 'the address to listen on; any address except loopback requires a token', '127.0.0.1', parseText),
  port: option('4400', 'the port to listen on; 0 selects a free one', 4_400, parsePort),
  store: option<string | undefined>(
    'sqlite:FILE',
    'the database; by default the one that the server of this home uses, otherwise ebb.db in the home',
    undefined,
    parseStore,
  ),
  token: option<string | undefined>(
    'TOKEN',
    'the token that callers must send; required to listen on any address except loopback',
    undefined,
    parseToken,
  ),
  allowHost: list('HOST', 'another host name that requests to the server may use'),
  allowOrigin: list('URL', 'an origin of web pages that may call the server', parseOrigin),
  testEndpoints: toggle('offer the routes for tests: reset, verification and synthetic agents'),
  keepOnExit: toggle(
    'on exit, keep agents in tmux and containers running for the next start; agents in the placement process are always ended',
  ),
  exitGiveUp: option<'never' | 'afterDeadline'>(
    'never|afterDeadline',
    'what happens on exit to a log that cannot be archived: it stays in the ledger, or is given up',
    'never',
    choice('never', 'afterDeadline'),
  ),
  whileStdin: toggle('exit, as after a signal, when standard input ends; for a server that another program starts'),
  url: option<string | undefined>('URL', 'the server to use, instead of the one of this home', undefined, parseUrl),
  namespace: option<string | undefined>('NAME', 'the namespace to use', undefined, parseNamespace),
  placement: option<string | undefined>(placementNames.join('|'), 'where the agent runs', undefined, parseText),
  cwd: option<string | undefined>('DIR', 'the working directory of the agent; by default the current one', undefined, parseFolder),
  model: option<string | undefined>('MODEL', 'the model, for providers that offer several', undefined, parseText),
  script: option<string | undefined>('FILE', 'the script of the scripted model, as JSON', undefined, parseText),
  modelPort: option('0', 'the port of the scripted model; 0 selects a free one', 0, parsePort),
  keep: toggle('keep the row, messages and archive of the agent after it has ended'),
  maxAgents: option('500', 'the maximum number of agents that run at the same time', 500, parseCount),
  minFree: option('256m', 'how much disk space must be free for a launch', 268_435_456, parseSize),
  limitLog: option(
    '2g',
    'the maximum size of each output stream of an agent; an agent that writes more is ended',
    2_147_483_648,
    parseSize,
  ),
  limitMessages: option('1000000', 'the maximum number of messages of an agent; an agent that writes more is ended', 1_000_000, parseCount),
  taskConcurrent: option('50', 'the maximum number of agents of one task that run at the same time', 50, parseCount),
  taskAgents: option('500', 'the maximum number of agents that may be deployed into one task in total', 500, parseCount),
  taskDepth: option('5', 'the maximum number of generations in a task, where agents deploy agents', 5, parseCount),
  spawnRule: list(
    'PARENT>CHILD[:MAX]',
    'which type of agent may deploy which type, and the maximum number at the same time; "*" is any type, "orchestrator" is a caller that is not an agent; without rules, all types may',
    parseRule,
  ),
  stuckThreshold: option('30m', 'how long an agent of a task may report nothing before it counts as stuck', 1_800_000, parseDuration),
  stuckAction: option<'report' | 'end'>(
    'report|end',
    'what happens to an agent of a task that counts as stuck: it is reported, or ended',
    'report',
    choice('report', 'end'),
  ),
  archiveMaxAgeDays: option('30', 'after how many days the archive of an agent is deleted; "never" keeps it', 30, parseDays),
  archiveMaxBytes: option<number | undefined>(
    'SIZE',
    'the maximum size of all archives together; the oldest are deleted first',
    undefined,
    parseSize,
  ),
  archiveTaskMaxBytes: option<number | undefined>('SIZE', 'the maximum size of all archives of one task together', undefined, parseSize),
  archiveCompressAfterDays: option('7', 'after how many days archives are compressed; "never" leaves them uncompressed', 7, parseDays),
  archiveByAgentType: {
    ...option(
      'TYPE=DAYS|TYPE.KEY=VALUE',
      'rules for one type of agents: maxAgeDays, maxBytes (of all archives of the type), compressAfterDays',
      new Map() as ReadonlyMap<string, RetentionRule>,
      (text, name) => parseByAgentType(parseList(text, name), name, parseSize),
    ),
    shape: 'map' as const,
  },
  agentTimeout: option('24h', 'the maximum age of an agent, unless its launch sets another', 86_400_000, parseDuration),
  idleTimeout: option(
    '60m',
    'how long an agent may write nothing before it is ended, unless its launch sets another limit',
    3_600_000,
    parseDuration,
  ),
  reaperInterval: option('60s', 'how often the reaper looks for resources that no close has released', 60_000, parseDuration),
  reaperMinimumAge: option('60s', 'how old an unrecorded resource must be before the reaper ends it', 60_000, parseDuration),
  runner: toggle('also be a runner host: other control planes may run agents on this host'),
  ...placementOptions,
} satisfies Record<string, Option<unknown>>

/** The options of all placements. Every command that launches agents, or finds or ends their resources, takes them. */
export const placementKeys = Object.keys(placementOptions) as (keyof typeof placementOptions)[]

/** How a person detaches from the terminal of an agent, as a text for the help of commands. */
export { detachHelp }

export type Options = typeof options
export type OptionKey = keyof Options
export type Settings = { readonly [K in OptionKey]: ReturnType<Options[K]['parse']> | Options[K]['fallback'] }

export const shapeOf = (key: OptionKey): Option<unknown>['shape'] => (options[key] as Option<unknown>).shape
export const isOptionKey = (key: string): key is OptionKey => Object.hasOwn(options, key)
export const flagOf = (key: string): string => `--${key.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`
export const variableOf = (key: string): string => `EBB_${key.replaceAll(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase()}`

/** The default home: `$XDG_STATE_HOME/ebb`, else `~/.local/state/ebb`. */
export function defaultHome(env: NodeJS.ProcessEnv): string {
  if (env.XDG_STATE_HOME && isAbsolute(env.XDG_STATE_HOME)) return join(env.XDG_STATE_HOME, 'ebb')
  if (env.HOME) return join(env.HOME, '.local', 'state', 'ebb')
  throw new EbbError('home_unusable', 'HOME is not set, so there is no default folder for the database; set EBB_HOME or give --home.')
}
