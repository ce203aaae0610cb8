import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { cpus, release, totalmem } from 'node:os'
import { dirname, join } from 'node:path'
import { hasOwnNetwork } from './host.ts'
import { agentFolderVariable } from './programs/agents.ts'

/** The machine and the versions of a measurement, shown at the top of the document. */
export interface Machine {
  readonly system: string
  readonly cores: number
  readonly memoryGb: number
  /** `loopback`: every run had a network namespace with loopback only. `shared`: the runs used the network of the machine. */
  readonly network: 'loopback' | 'shared'
  readonly versions: Readonly<Record<string, string>>
  /** A note for the reader about the origin of these results. A new run has none. */
  readonly note?: string
}

export function thisMachine(): Machine {
  return {
    system: `${distribution()}, Linux ${release()}`,
    cores: cpus().length,
    memoryGb: Math.round(totalmem() / 2 ** 30),
    network: hasOwnNetwork() ? 'loopback' : 'shared',
    versions: Object.fromEntries(Object.entries(versions()).flatMap(([name, version]) => (version ? [[name, version]] : []))),
  }
}

/**
 * The names and values of the properties that both machines have and that differ. Results of different machines or versions must not be
 * combined.
 */
export function differences(one: Machine, other: Machine): readonly string[] {
  const parts = ({ versions, system, cores, memoryGb, network }: Machine): Readonly<Record<string, unknown>> => ({
    ...{ system, cores, memoryGb, network },
    ...versions,
  })
  const theirs = parts(other)
  return Object.entries(parts(one)).flatMap(([name, value]) =>
    theirs[name] === undefined || theirs[name] === value ? [] : [`${name} (${value}, now ${theirs[name]})`],
  )
}

function distribution(): string {
  if (!existsSync('/etc/os-release')) return 'unknown'
  return /^PRETTY_NAME="(.*)"$/m.exec(readFileSync('/etc/os-release', 'utf8'))?.[1] ?? 'unknown'
}

function versions(): Readonly<Record<string, string | undefined>> {
  const agents = join(dirname(process.env[agentFolderVariable] ?? '/none/.bin'))
  const packages = join(import.meta.dirname, '..', '..')
  const ours = createRequire(import.meta.url)('../../package.json') as { version: string }
  return {
    Ebb: ours.version,
    Node: process.version,
    'tree-kill': inPackage(join(packages, 'node_modules', 'tree-kill')),
    execa: inPackage(join(packages, 'node_modules', 'execa')),
    tmux: versionOf('tmux', '-V'),
    coreutils: versionOf('timeout', '--version'),
    procps: versionOf('pkill', '--version'),
    'util-linux': versionOf('unshare', '--version'),
    docker: versionOf('dockerd', '--version'),
    claude: inPackage(join(agents, '@anthropic-ai', 'claude-code')),
    codex: inPackage(join(agents, '@openai', 'codex')),
    gemini: inPackage(join(agents, '@google', 'gemini-cli')),
    opencode: inPackage(join(agents, 'opencode-ai')),
  }
}

function inPackage(folder: string): string | undefined {
  const file = join(folder, 'package.json')
  return existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version : undefined
}

function versionOf(program: string, option: string): string | undefined {
  try {
    return /\d+\.[\w.]+/.exec(execFileSync(program, [option], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }))?.[0]
  } catch {
    return undefined
  }
}
