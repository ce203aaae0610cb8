import { accessSync, constants } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, isAbsolute, join } from 'node:path'
import { AgentEndings } from './agents/endings.ts'
import type { Inherited } from './cli/command.ts'
import { type Config, loadConfig } from './config/config.ts'
import { openHome } from './config/home.ts'
import { sentinelEnvironment } from './config/sentinel-environment.ts'
import { removeServerFile, writeServerFile } from './config/server-file.ts'
import type { Control } from './control.ts'
import type { Engine } from './core/engine/api.ts'
import { createEngine } from './core/engine/engine.ts'
import type { Agent } from './core/model/agent.ts'
import { EbbError } from './core/model/errors.ts'
import type { Intent } from './core/model/resource.ts'
import type { Effects } from './core/ports/effects.ts'
import type { Planned, ResourceKind } from './core/ports/kind.ts'
import { lineLog } from './core/ports/log.ts'
import { defaultPlacement, type Placement, type SettingCheck } from './core/ports/placement.ts'
import type { ProcessLaunch, TreeMember } from './core/ports/process.ts'
import type { Runtime } from './core/ports/runtime.ts'
import { realClock } from './host/clock.ts'
import { chooseContainment, detectContainments } from './host/containment/detect.ts'
import { realEffects } from './host/effects.ts'
import { kernelId, openHost } from './host/host.ts'
import { procTable } from './host/processes/proc.ts'
import { requireProgram } from './host/program.ts'
import { PipeSentinel } from './host/sentinel.ts'
import { watchedKind } from './host/watched-kind.ts'
import { openKinds } from './kinds/all.ts'
import { LedgerArchives } from './kinds/log/archives.ts'
import type { PlacementParts } from './placements/definition.ts'
import type { LaunchContext } from './placements/files.ts'
import { openPlacements, placementKindLabels, placementTable, terminalPlaceOf, unusedSettings } from './placements/registry.ts'
import { agentPrograms } from './providers/programs.ts'
import { openSqliteStore, type Store } from './store/sqlite/store.ts'
import type { Composition, Supervisor } from './supervisor.ts'
import type { Wiring } from './wiring.ts'

/** The composition root: the only file that wires all parts together. */

export async function compose(config: Config, composition: Composition = {}): Promise<Supervisor> {
  if (process.platform === 'win32') throw new EbbError('unsupported_platform', 'Ebb does not run on Windows; use it inside WSL 2.')
  const wrap = composition.wrap ?? (<T>(_name: string, port: T): T => port)
  const effects = wrap<Effects>('effects', realEffects)
  const home = openHome(config.home, kernelId, effects)
  const clock = realClock
  const log = composition.log ?? lineLog(config.logLevel, (line) => process.stderr.write(line))
  const processes = process.platform === 'darwin' ? (await import('./host/processes/ps.ts')).psTable : procTable
  const host = openHost(home.installation, processes, config.inheritedTag)
  const { inheritedTag } = config
  const containments = detectContainments({ effects, host, clock, processes, inheritedTag, gates: home.gates, node: process.execPath })
  const containment = chooseContainment(config.containment, containments)
  const isWatched = composition.watched ?? true
  if (isWatched) containment.expectLaunch?.()

  const ownKinds = openKinds({
    ...{ effects, host, processes, inheritedTag },
    installation: home.installation,
    containments: containments.all,
    fallbackScan: containments.fallbackScan,
    logDirectory: home.logs,
    runDirectory: home.run,
    // When a supervisor has died, the recovery reads the logs of its agents to the end.
    readToEnd: async (complete) => await (await import('./wiring.ts')).readToEnd(wiring, control, complete),
    ...(composition.onLogBytes && { onBytes: composition.onLogBytes }),
  })
  const { tree, folders } = ownKinds
  const context: LaunchContext = {
    installation: home.installation,
    containment,
    home: home.directory,
    logDirectory: home.logs,
    archiveDirectory: home.archive,
    runDirectory: home.run,
    tempDirectory: tmpdir,
    now: () => Date.parse(clock.wall()),
    // A process that a daemon starts, such as the tmux server, is no descendant of a subreaper process. The fallback scan contains it
    // instead.
    daemonContainment: containment.name === 'subreaper' ? containments.fallbackScan : containment,
    keepsSessions: composition.keepsSessions ?? false,
  }
  const parts: PlacementParts = {
    ...{ host, clock, log, effects, processes, context, inheritedTag, wrap },
    environment: config.environment,
    agentEnvironment: config.agentEnvironment,
    limitBytes: config.limitLog,
    terminalGate: () => containments.terminalGate(),
  }
  const placements = await openPlacements(config, parts)
  const kinds = new Map<string, ResourceKind>(
    [...ownKinds.all, ...placements.flatMap((one) => one.kinds)].map((kind) => [
      kind.kind,
      composition.onUnknown ? watchedKind(kind, composition.onUnknown) : kind,
    ]),
  )
  const kindLabels = new Map([...ownKinds.all.map(({ kind, label }) => [kind, label] as const), ...placementKindLabels])

  const sentinel = new PipeSentinel({
    effects,
    clock,
    home: home.directory,
    incarnation: host.incarnationId,
    killSwitch: containments.killSwitch ?? '',
    start: join(import.meta.dirname, '..', 'bin', 'start.cjs'),
    which: basename(import.meta.dirname),
    node: process.execPath,
    log: home.sentinelLog,
    onLost: (reason) => log.error('The sentinel was lost; Ebb starts another one.', { reason }),
    environment: sentinelEnvironment(config),
  })
  // The sentinel starts while the database opens. The engine waits for it and gets the error.
  if (isWatched) sentinel.ready().catch(() => {})
  const opened = await openSqliteStore({ file: config.store ?? home.database, clock }).catch((error: unknown): Promise<Store> => {
    sentinel.dismiss() // Nothing was created yet, and a recovery by the sentinel would fail on the same database.
    throw error
  })
  const ledger = wrap('ledger', opened.ledger)
  const agents = wrap('agents', opened.agents)
  const tasks = wrap('tasks', opened.tasks)
  const archives = new LedgerArchives({
    effects,
    clock,
    directory: home.archive,
    resources: (agentId) => ledger.resources(agentId).catch((error: unknown) => ownIntents(engine, host.incarnationId, agentId, error)),
    leaveFolders: async (resources) => {
      for (const resource of resources) await folders.leave(resource)
    },
    ...(composition.onLogBytes && { onBytes: composition.onLogBytes }),
  })
  const endings = new AgentEndings({ agents, clock, archives, isDead: (id) => host.vitality(id) === 'dead' })
  let control: Promise<Control> | undefined
  const openControl = (): Promise<Control> => {
    control ??= import('./wiring.ts').then(({ wireControl }) => wireControl(wiring))
    return control
  }
  const runtime: Runtime = { clock, log, newId: kernelId, host }
  const engine = createEngine({
    ...runtime,
    ledger,
    kinds,
    sentinel: isWatched ? sentinel : { ready: async () => {}, dismiss: () => {} },
    endings,
    givesUpAtExit: config.exitGiveUp === 'afterDeadline',
    reaper: { intervalMs: config.reaperInterval, minimumAgeMs: config.reaperMinimumAge },
    ...(composition.keepsSessions && { adopter: async (kept, contents) => await (await openControl()).adopter(kept, contents) }),
  })
  const find = ({ placement: wanted = defaultPlacement }: ProcessLaunch): Placement =>
    placements.find(({ name }) => name === wanted) ?? notConfigured(wanted)
  const plan = (scopeId: string, launch: ProcessLaunch): readonly Planned[] => find(launch).plan(scopeId, launch)
  const requireReady = async (launch: ProcessLaunch): Promise<void> => await find(launch).requireReady?.(launch)
  const runningProcesses = async (): Promise<readonly TreeMember[]> => {
    const [here, ...there] = await Promise.all([tree.running(), ...placements.map((one) => one.running?.() ?? [])])
    // The processes of a container may be listed twice, because they are found by their environment tag, too. Each pid is kept once.
    return [...new Map([...here, ...there.flat()].map((member) => [member.pid, member])).values()]
  }
  const { syncBeside } = opened
  const contents = { agents, tasks, syncBeside, endings, archives }
  const wiring: Wiring = {
    ...runtime,
    config,
    home,
    engine,
    audit: ledger,
    placementTable,
    kindLabels,
    terminalOf: (agent: Agent) => terminalPlaceOf(home.directory, agent),
    ...contents,
    effects,
    callback: composition.callback ?? (() => undefined),
    plan,
    requireReady,
    runningProcesses,
    processes,
  }
  return {
    ...runtime,
    config,
    home,
    engine,
    serverFile: {
      write: (content) => writeServerFile(home.directory, content, effects),
      remove: () => removeServerFile(home.directory, effects),
    },
    agents,
    archives,
    problems: () => {
      const { available, reason } = containments.availabilityOf(containment.name)
      return [
        ...(sentinel.isLost
          ? ['No sentinel is running. Until one is started, a SIGKILL of this process leaves its agents running until the next start.']
          : []),
        ...(available ? [] : [`The containment ${containment.name} is broken: ${reason}.`]),
      ]
    },
    containment: containment.name,
    get placements() {
      return placements.filter(({ isUsable }) => isUsable?.() ?? true).map(({ name }) => name)
    },
    plan,
    checkSettings: async () => [...checkUnused(config), ...(await Promise.all(placements.map((one) => one.check?.() ?? []))).flat()],
    otherHosts: async () => await Promise.all(placements.flatMap((one) => one.host?.() ?? [])),
    asAgent: async ([program = ''], env) => {
      const name = basename(program)
      if (!agentPrograms.has(name)) return {}
      const { installed } = await import('./providers/all.ts')
      const hasTempFolder = isWritable(tmpdir())
      // A missing temp folder is only a warning, because an agent program also runs without a temp folder of its own.
      if (!hasTempFolder) log.warn(`${name} gets no temp folder of its own, because ${tmpdir()} cannot be written; set TMPDIR.`)
      return { hasTempFolder, leaves: installed.find((provider) => provider.program === name)?.leaves?.(env) ?? [] }
    },
    control: openControl,
    get availability() {
      return containments.availability
    },
    // The processes of kept containers are processes of this host, too, so their agents are excluded.
    killAllNow: () => tree.killAllNow(engine.keptAgents()),
    runningProcesses,
    close: async () => await ledger[Symbol.asyncDispose](),
  }
}

/** Reports the settings of placements that are not configured as bad, because such settings cannot be tried out. */
function checkUnused(config: Config): readonly SettingCheck[] {
  return unusedSettings(config).map((one) => ({ ...one, isGood: false }))
}

function notConfigured(placement: string): never {
  const needed = placementTable.get(placement)?.needs?.setting
  if (needed === undefined)
    throw new EbbError('launch_refused', `There is no placement ${placement}; use one of ${[...placementTable.keys()].join(', ')}.`)
  throw new EbbError('launch_refused', `The placement ${placement} needs the setting ${needed}; see the guide on it.`)
}

function isWritable(folder: string): boolean {
  try {
    accessSync(folder, constants.W_OK)
    return isAbsolute(folder)
  } catch {
    return false
  }
}

/**
 * The intents of an agent's resources from memory, for the time in which the database does not answer. Only for a scope that this process
 * opened are all intents in memory.
 */
function ownIntents(engine: Engine, incarnationId: string, agentId: string, error: unknown): readonly Intent[] {
  const scope = engine.inspect(agentId)
  if (scope?.incarnation !== incarnationId) throw error
  return [...scope.resources.values()].map(({ intent }) => intent)
}

/** The entry point of the command line. */
export async function runMain(words: readonly string[], inherited: Inherited): Promise<never> {
  const { runCommandLine } = await import('./cli/cli.ts')
  const manifest = join(import.meta.dirname, '..', 'package.json')
  const dashboard = join(import.meta.dirname, '..', 'dist', 'web')
  const attach = async ({ home, environment }: Config, agent: Agent): Promise<number> => {
    const parts = { home: openHome(home, kernelId, realEffects).directory, effects: realEffects, environment }
    return await (await import('./placements/attach.ts')).attach(agent, parts)
  }
  process.exit(
    await runCommandLine(words, {
      compose,
      loadConfig,
      requireProgram,
      attach,
      providers: async () => (await import('./providers/all.ts')).providerTypes,
      programs: async (config) => (await import('./machine.ts')).programsOf(config),
      leftovers: async (config) => (await import('./machine.ts')).leftoversOf(config),
      clock: realClock,
      placementTable,
      manifest,
      dashboard,
      inherited,
    }),
  )
}
