import { stat, statfsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { AgentEndings } from './agents/endings.ts'
import { readVersion } from './agents/probe.ts'
import { sourceOf } from './agents/source.ts'
import { Stream } from './agents/stream/stream.ts'
import type { Config } from './config/config.ts'
import type { Home } from './config/home.ts'
import { retentionRules } from './config/retention.ts'
import { Control } from './control.ts'
import type { Engine } from './core/engine/api.ts'
import type { Agent } from './core/model/agent.ts'
import { parseSpawnRule } from './core/model/spawn-rule.ts'
import type { AgentStore } from './core/ports/agents.ts'
import type { Archives } from './core/ports/archives.ts'
import type { Effects } from './core/ports/effects.ts'
import type { KindLabels, Planned } from './core/ports/kind.ts'
import type { AuditTrail } from './core/ports/ledger.ts'
import type { PlacementTable, TerminalPlace } from './core/ports/placement.ts'
import type { ProcessLaunch, TreeMember } from './core/ports/process.ts'
import type { Runtime } from './core/ports/runtime.ts'
import type { TaskStore } from './core/ports/tasks.ts'
import { detailsOf, residentBytes } from './host/processes/details.ts'
import type { ProcessTable } from './host/processes/process-table.ts'
import { findProgram } from './host/program.ts'
import { readStart } from './host/slow-effects.ts'
import { requireFolder } from './kinds/file/folder.ts'
import type { CompleteLog } from './kinds/log/kind.ts'
import { readLog } from './kinds/log/read-lines.ts'
import { tempFolderOf } from './kinds/temp-folder/kind.ts'
import { providers } from './providers/all.ts'
import { Catalogue } from './providers/catalogue.ts'
import type { Callback } from './tasks/types.ts'

/** The second half of the composition root: what is needed only when there are agents. It is loaded on demand. */

export interface Wiring extends Runtime {
  readonly config: Config
  readonly home: Home
  readonly engine: Engine
  readonly audit: AuditTrail
  readonly placementTable: PlacementTable
  readonly kindLabels: KindLabels
  readonly terminalOf: (agent: Agent) => TerminalPlace | undefined
  readonly agents: AgentStore
  readonly tasks: TaskStore
  /** Makes the store sync to the disk in Node's thread pool, whose threads `startThreads` starts. */
  readonly syncBeside: () => void
  readonly endings: AgentEndings
  readonly archives: Archives
  readonly processes: ProcessTable
  readonly effects: Effects
  readonly callback: () => Callback | undefined
  readonly plan: (scopeId: string, launch: ProcessLaunch) => readonly Planned[]
  readonly requireReady: (launch: ProcessLaunch) => Promise<void>
  readonly runningProcesses: () => Promise<readonly TreeMember[]>
}

function wireCatalogue({ config, engine, clock, newId, plan }: Wiring): Catalogue {
  const child = join(import.meta.dirname, '..', 'bin', 'synthetic-agent.cjs')
  const environment = config.agentEnvironment
  return new Catalogue(providers(child), {
    environment,
    findProgram,
    readVersion: (argv) =>
      readVersion(argv, { engine, clock, newId, plan, environment, readStart, tempFolderOf: (id) => tempFolderOf(tmpdir(), id) }),
  })
}

/**
 * Starts the threads of Node's pool. Node would start them with the first work, and abort when a thread cannot be created. That could
 * happen in the middle of a close, after agents have taken every pid (G12).
 */
function startThreads(): void {
  stat('/', () => {})
}

export function wireControl(wiring: Wiring): Control {
  const { config, home, engine, agents, tasks, endings, archives, audit, processes, plan, requireReady, runningProcesses } = wiring
  const { clock, log, newId, host } = wiring
  startThreads()
  wiring.syncBeside()
  const catalogue = wireCatalogue(wiring)
  return new Control({
    clock,
    log,
    newId,
    host,
    engine,
    audit,
    placementTable: wiring.placementTable,
    kindLabels: wiring.kindLabels,
    terminalOf: wiring.terminalOf,
    store: agents,
    endings,
    openStream: (callbacks) => new Stream({ agents, clock, log, ...callbacks }),
    catalogue,
    environment: config.agentEnvironment,
    caps: {
      maxAgents: config.maxAgents,
      minFreeBytes: config.minFree,
      logBytes: config.limitLog,
      messages: config.limitMessages,
      timeoutMs: config.agentTimeout,
      idleMs: config.idleTimeout,
    },
    callback: wiring.callback,
    retentionMs: config.reaperInterval,
    retention: retentionRules(config),
    taskStore: tasks,
    taskLimits: {
      concurrent: config.taskConcurrent,
      agents: config.taskAgents,
      depth: config.taskDepth,
      spawnRules: config.spawnRule.flatMap((rule) => parseSpawnRule(rule) ?? []),
      stuckThresholdMs: config.stuckThreshold,
      stuckAction: config.stuckAction,
    },
    readLog,
    requireFolder,
    plan,
    requireReady,
    configPath: (agentId, name) => join(home.run, `${agentId}.${name}`),
    runningProcesses,
    describeProcess: (pid) => detailsOf(processes, pid),
    residentBytes,
    freeBytes: () => {
      const { bavail, bsize } = statfsSync(home.directory)
      return bavail * bsize
    },
    archives,
  })
}

/**
 * Reads the last lines of an agent: with the stream that follows the agent, or, for an agent of a dead supervisor, with a stream of its
 * own.
 */
export async function readToEnd(wiring: Wiring, control: Promise<Control> | undefined, log: CompleteLog): Promise<void> {
  const { agents, config, clock, log: supervisorLog } = wiring
  const open = async () => {
    const record = await agents.find(log.scopeId)
    if (!record) return undefined
    const position = (await agents.positions(log.scopeId)).find(({ stream }) => stream === log.stream)
    const where = { agentId: log.scopeId, stream: log.stream, path: log.path, offset: position?.offset ?? 0 }
    const limitBytes = record.agent.session.configuration.limits?.logBytes ?? config.limitLog
    return sourceOf({ ...where, limitBytes, limitMessages: config.limitMessages }, wireCatalogue(wiring).find(record.agent.type))
  }
  const following = (await control)?.stream
  if (following) return await following.finish(log.path, open)
  await using own = new Stream({ agents, clock, log: supervisorLog, onSaved: () => {}, onTooMuch: () => {} })
  await own.finish(log.path, open)
}
