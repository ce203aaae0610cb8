import { Adoption } from './agents/adoption.ts'
import { Agents, type AgentsDeps, type Launched } from './agents/agents.ts'
import { Cleanup } from './agents/cleanup.ts'
import type { AgentEndings } from './agents/endings.ts'
import { Events } from './agents/events.ts'
import { History } from './agents/history.ts'
import { Namespaces } from './agents/namespaces.ts'
import { Owners } from './agents/owners.ts'
import type { LaunchRequest } from './agents/preflight.ts'
import { Retention } from './agents/retention.ts'
import { RunningCloses } from './agents/running-closes.ts'
import type { TaskLimits } from './agents/settings.ts'
import type { Stream } from './agents/stream/stream.ts'
import { Subscriptions } from './agents/subscriptions.ts'
import { type Usage, usageOf } from './agents/usage.ts'
import { Waiting } from './agents/waiting.ts'
import type { Adopter, Engine } from './core/engine/api.ts'
import type { Agent } from './core/model/agent.ts'
import { scopeOfResource } from './core/model/identity.ts'
import type { Message } from './core/model/message.ts'
import type { Report } from './core/model/report.ts'
import type { RetentionRules } from './core/model/retention.ts'
import type { AgentStore, Progress } from './core/ports/agents.ts'
import type { ReadLog } from './core/ports/archives.ts'
import type { Clock } from './core/ports/clock.ts'
import type { Host } from './core/ports/host.ts'
import type { NewId } from './core/ports/ids.ts'
import type { KindLabels } from './core/ports/kind.ts'
import type { AuditTrail } from './core/ports/ledger.ts'
import type { Log } from './core/ports/log.ts'
import type { PlacementTable, TerminalPlace } from './core/ports/placement.ts'
import type { ProcessDetails, TreeMember } from './core/ports/process.ts'
import type { ProviderCatalogue } from './core/ports/provider.ts'
import type { TaskStore } from './core/ports/tasks.ts'
import { Tasks } from './tasks/tasks.ts'
import type { Callback } from './tasks/types.ts'

export interface ControlDeps extends Omit<AgentsDeps, 'namespaces' | 'owners' | 'events' | 'stream' | 'engine' | 'store' | 'endings'> {
  readonly engine: Engine
  readonly store: AgentStore
  readonly endings: AgentEndings
  /** Opens the stream, which reads the output of agents. Its events go to the listener. */
  readonly openStream: (listener: StreamListener) => Stream
  /** The interval of retention passes. */
  readonly retentionMs: number
  readonly audit: AuditTrail
  /** How long archives are kept, and how large they may get. */
  readonly retention: RetentionRules
  readonly taskStore: TaskStore
  readonly taskLimits: TaskLimits
  /** How an agent of a task calls this server; asked at each deployment into a task. Undefined while no server accepts calls of agents. */
  readonly callback: () => Callback | undefined
  readonly readLog: ReadLog
  /** Throws when no workspace can be created in a folder. The error has the reason. */
  readonly requireFolder: (path: string) => void
  /** The labels of all kinds that this version knows, configured or not. */
  readonly kindLabels: KindLabels
  /** Where the terminal of an agent is. Undefined when its placement has none. */
  readonly terminalOf: (agent: Agent) => TerminalPlace | undefined
  readonly runningProcesses: () => Promise<readonly TreeMember[]>
  readonly describeProcess: (pid: number) => ProcessDetails | undefined
  /** The resident memory of one process; 0 when the process is gone. */
  readonly residentBytes: (pid: number) => number
}

export interface StreamListener {
  readonly onSaved: (progress: Progress, messages: readonly Message[]) => void
  readonly onRead: (agentId: string) => void
  readonly onTooMuch: (agentId: string) => void
}

/** The number of closes of one scope that must fail in a row before an alert is emitted. */
const failuresToAlert = 3

/** The longest wait for a daemon or service that is asked whether an agent runs. */
const observationTimeoutMs = 5_000

/** The control plane: all operations on agents that the server, the library and the command line offer. */
export class Control {
  readonly engine: Engine
  readonly clock: Clock
  readonly log: Log
  readonly newId: NewId
  readonly host: Host
  readonly events: Events
  readonly agents: Agents
  readonly owners: Owners
  readonly namespaces: Namespaces
  readonly cleanup: Cleanup
  readonly tasks: Tasks
  readonly history: History
  readonly retention: Retention
  /** The subscriptions of live clients. The socket interface of a server adds them. */
  readonly subscriptions = new Subscriptions()
  readonly store: AgentStore
  readonly waiting: Waiting
  readonly stream: Stream
  readonly catalogue: ProviderCatalogue
  readonly placementTable: PlacementTable
  readonly kindLabels: KindLabels
  readonly #deps: ControlDeps
  readonly #lifetime = new AbortController()
  readonly #failures = new Map<string, number>()
  #listing: Promise<readonly TreeMember[]> | undefined

  constructor(deps: ControlDeps) {
    const { engine, clock, log, newId, host, store, runningProcesses } = deps
    const runtime = { clock, log, newId, host }
    this.#deps = deps
    this.engine = engine
    this.clock = clock
    this.log = log
    this.newId = newId
    this.host = host
    this.store = store
    this.catalogue = deps.catalogue
    this.placementTable = deps.placementTable
    this.kindLabels = deps.kindLabels
    this.events = new Events((error) => log.error('An event listener threw an error.', { error: String(error) }))
    const namespaces = new Namespaces(engine, newId)
    this.namespaces = namespaces
    const runningCloses = new RunningCloses(engine, clock, this.events)
    this.history = new History({ engine, clock, audit: deps.audit, runningCloses })
    this.owners = new Owners({ ...runtime, engine, store, namespaces, history: this.history })
    this.stream = deps.openStream({
      onSaved: (progress, messages) => this.#saved(progress, messages),
      onRead: (agentId) => this.agents.living.get(agentId)?.wrote(),
      onTooMuch: (agentId) => this.#tooMuch(agentId, 'bytes'),
    })
    this.agents = new Agents({ ...deps, stream: this.stream, events: this.events, namespaces, owners: this.owners })
    const { agents, history, subscriptions } = this
    this.cleanup = new Cleanup({ ...runtime, engine, store, agents, namespaces, history, subscriptions, runningProcesses })
    engine.on('report', (report, namespace, id) => this.#reported(report, namespace, id))
    this.retention = new Retention({
      store,
      archives: deps.archives,
      clock,
      log,
      rules: deps.retention,
    })
    // The agent has ended, so its earlier failed closes no longer count.
    for (const end of ['terminated', 'deleted'] as const)
      this.events.on(end, ({ agentId, namespace }) => this.#failures.delete(`${namespace} agent ${agentId}`))
    this.tasks = new Tasks({
      ...deps,
      tasks: deps.taskStore,
      limits: deps.taskLimits,
      agents: this.agents,
      owners: this.owners,
      events: this.events,
      processesOf: (agentId) => this.processesOf(agentId),
    })
    this.waiting = new Waiting(this.events, clock)
  }

  /**
   * The entry of every launch of an agent. An agent of a task is deployed into it, within the task's limits. A task id that names no
   * task is a label.
   */
  async launch(request: LaunchRequest): Promise<Launched> {
    return (await this.tasks.launch(request)) ?? (await this.agents.launch(request))
  }

  /** Adopts agents that outlived an earlier server. */
  get adopter(): Adopter {
    const adoption = new Adoption(this)
    return (kept, contents) => adoption.adopt(kept, contents)
  }

  startReaper(): void {
    this.engine.startReaping(this.#lifetime.signal)
  }

  /** Starts the retention passes over the archives. Only servers do. */
  startRetention(): void {
    this.retention.start(this.#deps.retentionMs, this.#lifetime.signal)
  }

  #saved({ agentId, result }: Progress, messages: readonly Message[]): void {
    const run = this.agents.living.get(agentId)
    run?.savedMessages(messages.at(-1)?.sequenceNumber ?? 0)
    this.events.emit('messages', { agentId, messages })
    if (result) run?.lastWord(result)
    if ((run?.messageCount ?? 0) > this.#deps.caps.messages) this.#tooMuch(agentId, 'messages')
  }

  #tooMuch(agentId: string, what: 'bytes' | 'messages'): void {
    const { caps } = this.#deps
    const message =
      what === 'bytes'
        ? `The agent wrote more to one output stream than its own limits.logBytes, or else --limit-log (${caps.logBytes} bytes), allows, and was ended.`
        : `The agent wrote more than ${caps.messages} messages, the limit of --limit-messages, and was ended.`
    // An agent that exceeded an output limit gets no grace, because it would use that time to fill the disk.
    this.agents.living.get(agentId)?.violates({ name: 'output_limit', message }, 0)
  }

  #reported(report: Report, namespace: string | undefined, reportId: string): void {
    const where = namespace === undefined ? {} : { namespace }
    this.events.emit('report', { report, id: reportId, ...where })
    const { kind, id } = report.scope
    const key = `${namespace ?? ''} ${kind} ${id}`
    const failures = report.success ? 0 : (this.#failures.get(key) ?? 0) + 1
    if (failures > 0) this.#failures.set(key, failures)
    else this.#failures.delete(key)
    // A clean scope contains nothing that fails, so the counts of everything in it are reset.
    if (failures === 0 && kind === 'host') this.#failures.clear()
    if (failures === 0 && kind === 'namespace')
      for (const known of [...this.#failures.keys()]) if (known.startsWith(`${id} `)) this.#failures.delete(known)
    if (failures === failuresToAlert) this.events.emit('alert', { scope: report.scope, failures, ...where })
  }

  /** The processes of one agent, observed now. Processes that Ebb runs beside the agent are left out. */
  async processesOf(agentId: string): Promise<readonly ProcessDetails[]> {
    const resources = await this.engine.resources(agentId)
    const attended = new Set(resources.filter(({ kind }) => this.engine.traitsOf(kind)?.attends).map(({ id }) => id))
    const members = (await this.#deps.runningProcesses()).filter(
      ({ resourceId }) => scopeOfResource(resourceId) === agentId && !attended.has(resourceId),
    )
    return members.flatMap(({ pid }) => this.#deps.describeProcess(pid) ?? [])
  }

  /**
   * What the running agents use of this host. Concurrent callers share one process listing. Agents outside this host without a
   * visible process are left out.
   */
  async usage(namespace: string | undefined): Promise<readonly Usage[]> {
    this.#listing ??= this.#deps.runningProcesses().finally(() => {
      this.#listing = undefined
    })
    return usageOf({
      members: await this.#listing,
      living: [...this.agents.living.values()].filter((run) => namespace === undefined || run.namespace === namespace),
      engine: this.engine,
      residentBytes: this.#deps.residentBytes,
    })
  }

  /** Whether an agent runs: by its processes on this host, or by asking its placement. Unknown counts as running (G4). */
  async isAlive(agentId: string, processes: readonly ProcessDetails[]): Promise<boolean> {
    if (processes.length > 0) return true
    const body = [...(this.engine.inspect(agentId)?.resources.values() ?? [])].find(({ intent }) => mayRunAgent(this.engine, intent.kind))
    if (!body || body.state === 'released') return false
    return (await this.engine.observe(body.intent, observationTimeoutMs))?.is !== 'absent'
  }

  /** Stops the reaper, retention and the reading of logs. Call `close` after the engine has shut down. */
  async close(): Promise<void> {
    this.#lifetime.abort()
    await this.stream[Symbol.asyncDispose]()
  }
}

/** A resource of a kind that this process does not know may be what runs the agent (G4). */
function mayRunAgent(engine: Engine, kind: string): boolean {
  const traits = engine.traitsOf(kind)
  return traits === undefined || traits.runsAgent === true
}
