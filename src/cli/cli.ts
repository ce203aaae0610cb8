import type { Config, Sources } from '../config/config.ts'
import { placementKeys } from '../config/options.ts'
import { EbbError, errorTable, sentence } from '../core/model/errors.ts'
import type { Clock } from '../core/ports/clock.ts'
import type { PlacementTable } from '../core/ports/placement.ts'
import type { Leftovers } from '../doctor/leftovers-port.ts'
import type { Composition, Supervisor } from '../supervisor.ts'
import { type Arguments, type Grammar, parseArguments } from './arguments.ts'

/** The command line: one small module per command, loaded only when it is asked for. */

export interface Wiring {
  readonly compose: (config: Config, composition?: Composition) => Promise<Supervisor>
  readonly loadConfig: (sources: Sources) => Config
  /** Throws when a program cannot start; asked before anything is made. */
  readonly requireProgram: (argv: readonly string[], env: Readonly<Record<string, string>>, cwd: string) => void
  /** Gives this terminal to the session of an agent, until the person leaves it. */
  readonly attach: (config: Config, agentId: string) => Promise<number>
  /** The types of agents that there are, installed or not. */
  readonly providers: () => Promise<readonly string[]>
  /** Of each provider that people install: its program, and where it is on the PATH. */
  readonly programs: (config: Config) => Promise<readonly InstalledProgram[]>
  /** What agent runs that Ebb did not start have left on this machine. */
  readonly leftovers: (config: Config) => Promise<Leftovers>
  readonly clock: Clock
  readonly placementTable: PlacementTable
  readonly inherited: Inherited
  /** The package.json that says which version this is. */
  readonly manifest: string
  /** The folder with the built dashboard. */
  readonly dashboard: string
}

/** What this process was started with, and Node keeps from its children. */
export interface Inherited {
  /** Open besides stdio; they belong to the command. */
  readonly descriptors: readonly number[]
  /** Ignored, by nohup or a shell: by us then, and by the command. */
  readonly ignored: readonly NodeJS.Signals[]
}

export interface InstalledProgram {
  readonly type: string
  readonly program: string
  readonly path: string | null
}

export interface CommandModule {
  run(args: Arguments, wiring: Wiring): Promise<number>
}

export interface CommandEntry extends Grammar {
  readonly summary: string
  readonly usage: string
  readonly examples: readonly string[]
  readonly load: () => Promise<CommandModule>
}

const everywhere = ['home', 'logLevel'] as const

/** Of whoever supervises agents for others. */
export const supervising = [
  'containment',
  'exitGiveUp',
  'maxAgents',
  'taskConcurrent',
  'taskAgents',
  'taskDepth',
  'spawnRule',
  'stuckThreshold',
  'stuckAction',
  'minFree',
  'limitLog',
  'limitMessages',
  'agentTimeout',
  'idleTimeout',
  'reaperInterval',
  'reaperMinimumAge',
] as const

export const commands: readonly CommandEntry[] = [
  {
    name: 'exec',
    summary: 'run any command and leave nothing of it behind',
    usage: 'ebb exec [options] -- COMMAND [ARGUMENT…]',
    examples: [
      'ebb exec -- npm test',
      'ebb exec --timeout 10m --grace 2s -- claude -p "Fix the flaky test"',
      'ebb exec --report report.json --limit-memory 2g -- ./run-agent.sh',
    ],
    options: [...everywhere, 'store', 'grace', 'timeout', 'report', 'containment', 'limitMemory', 'limitPids'],
    switches: ['json', 'help'],
    takesCommand: true,
    load: () => import('./commands/exec.ts'),
  },
  {
    name: 'serve',
    summary: 'the control plane: agents over HTTP and sockets, until Ctrl-C',
    usage: 'ebb serve [options]',
    examples: ['ebb serve', 'ebb serve --port 0 --test-endpoints', 'ebb serve --host 0.0.0.0 --token "$TOKEN" --allow-host build.example'],
    options: [
      ...everywhere,
      'host',
      'port',
      'store',
      'testEndpoints',
      'token',
      'allowOrigin',
      'allowHost',
      'keepOnExit',
      'whileStdin',
      'runner',
      ...supervising,
      ...placementKeys,
      'archiveMaxAgeDays',
      'archiveMaxBytes',
      'archiveTaskMaxBytes',
      'archiveCompressAfterDays',
      'archiveByAgentType',
    ],
    switches: ['json', 'help'],
    load: () => import('./commands/serve.ts'),
  },
  {
    name: 'status',
    summary: 'is the world clean: what runs, what is stuck, what is held back',
    usage: 'ebb status [--json]',
    examples: ['ebb status', 'ebb status --json'],
    options: [...everywhere, 'store', 'url', 'token'],
    switches: ['json', 'help'],
    load: () => import('./commands/status.ts'),
  },
  {
    name: 'recover',
    summary: 'finish what dead supervisors left on this host; safe at any time',
    usage: 'ebb recover [--json]',
    examples: ['ebb recover'],
    options: [...everywhere, 'store', ...placementKeys],
    switches: ['json', 'help'],
    load: () => import('./commands/recover.ts'),
  },
  {
    name: 'reap',
    summary: 'one reaper pass now: find what nobody closed, and end it',
    usage: 'ebb reap [--dry-run] [--elsewhere] [--json]',
    examples: ['ebb reap --dry-run', 'ebb reap', 'ebb reap --elsewhere --reaper-minimum-age 10m'],
    options: [...everywhere, 'store', 'reaperMinimumAge', ...placementKeys],
    switches: ['json', 'help', 'dry-run', 'elsewhere'],
    load: () => import('./commands/reap.ts'),
  },
  {
    name: 'doctor',
    summary: 'what this machine offers, whether the settings work, and what other agent runs have left; --fix ends that',
    usage: 'ebb doctor [--fix [--yes]] [--json]',
    examples: ['ebb doctor', 'ebb doctor --json', 'ebb doctor --fix'],
    options: [...everywhere, 'store', 'containment', ...placementKeys],
    switches: ['json', 'help', 'fix', 'yes'],
    load: () => import('./commands/doctor.ts'),
  },
]

export async function runCommandLine(words: readonly string[], wiring: Wiring): Promise<number> {
  try {
    const [name = 'help', ...rest] = words
    if (name === 'help' || name === '--help' || name === '-h') return await help(rest[0])
    if (name === '--version' || name === 'version') return await version(wiring.manifest)
    const isCalled = (candidate: CommandEntry): boolean => candidate.name === name
    const command = commands.find(isCalled) ?? (await agentCommands()).find(isCalled)
    if (!command) throw new EbbError('bad_usage', `There is no command "${name}"; "ebb help" lists them.`)
    const args = parseArguments(command, rest)
    if (args.switches.has('help')) return await help(command.name)
    // Everybody sees arguments in `ps`; libuv writes the title over them.
    if (['token', 'remoteToken', 'ecsToken'].some((key) => args.flags.has(key))) process.title = `ebb ${command.name}`
    const { run } = await command.load()
    const code = await run(args, wiring)
    if (!leavesInTime.has(command.name)) await taken(process.stdout)
    return code
  } catch (error) {
    const text = `ebb: ${sentence(error)}\n`
    // It may quote what somebody else wrote.
    process.stderr.write(process.stderr.isTTY ? (await import('./terminal/text.ts')).harmless(text) : text)
    return exitCodeOf(error, words[0])
  }
}

/** Those that serve others leave in a time that is known; a reader that has stopped reading must not change that. */
const leavesInTime: ReadonlySet<string> = new Set(['exec', 'serve', 'mcp', 'scripted-model'])

/** All of it was taken, or nobody will: an exit would throw away what a slow reader's pipe had no room for. */
async function taken(stream: NodeJS.WriteStream): Promise<void> {
  if (stream.writableLength > 0) await new Promise<void>((resolve) => stream.write('', () => resolve()))
}

/** `exec` speaks as a shell and `env` do; every other command says 1 for a failure, 2 for wrong usage, 3 for stuck. */
function exitCodeOf(error: unknown, command: string | undefined): number {
  if (!(error instanceof EbbError)) return command === 'exec' ? 125 : 1
  const { exit } = errorTable[error.code]
  if (command === 'exec') return exit === 1 ? 125 : exit
  return exit > 100 ? 1 : exit
}

async function help(name?: string): Promise<number> {
  const { renderHelp } = await import('./help.ts')
  const { plainOutput } = await import('./output.ts')
  const { out, face } = plainOutput()
  out(renderHelp([...commands, ...(await agentCommands())], name, face.width))
  return 0
}

/** Not needed by a run of somebody else's command, which has no time for them. */
async function agentCommands(): Promise<readonly CommandEntry[]> {
  return (await import('./agent-commands.ts')).agentCommands
}

async function version(manifest: string): Promise<number> {
  const { readFileSync } = await import('node:fs')
  const { version: number } = JSON.parse(readFileSync(manifest, 'utf8')) as { version: string }
  process.stdout.write(`${number}\n`)
  return 0
}
