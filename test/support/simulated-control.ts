import { AgentEndings } from '../../src/agents/endings.ts'
import type { Stream } from '../../src/agents/stream/stream.ts'
import { Control } from '../../src/control.ts'
import type { Archives } from '../../src/core/ports/archives.ts'
import type { Planned } from '../../src/core/ports/kind.ts'
import type { TreeMember } from '../../src/core/ports/process.ts'
import type { Provider } from '../../src/core/ports/provider.ts'
import type { Life, LifeOptions, Simulation } from './simulation.ts'

/** The real control plane over a simulated supervisor. The test chooses what an agent creates. */
export interface SimulatedControl {
  readonly control: Control
  readonly life: Life
  /** Ids of agents whose archives cannot be removed. */
  readonly immovable: Set<string>
  /** Ids of agents whose archives were removed. */
  readonly removed: string[]
  /** Processes that the simulated system reports as running. */
  readonly processes: TreeMember[]
  /** The number of times that `processes` was listed. */
  readonly looks: { count: number }
}

/** No timeout. With any finite timeout, simulated time would reach it as soon as nothing else happens. */
const never = Number.POSITIVE_INFINITY

export interface ControlOptions extends LifeOptions {
  readonly plan?: () => readonly Planned[]
  readonly maxAgents?: number
}

export function simulateControl(simulation: Simulation, options: ControlOptions = {}): SimulatedControl {
  const { clock, agents: store } = simulation
  const immovable = new Set<string>()
  const removed: string[] = []
  const processes: TreeMember[] = []
  const looks = { count: 0 }
  const archives: Archives = {
    files: async () => [],
    remove: async (agentId) => {
      if (immovable.has(agentId)) throw new Error(`The archive ${agentId} is still there.`)
      removed.push(agentId)
    },
    compress: async () => 0,
    read: async function* () {},
  }
  const endings = new AgentEndings({ agents: store, clock, archives, isDead: (id) => simulation.vitality.get(id) === 'dead' })
  const life = simulation.live({ ...options, endings })
  const provider = { invoke: () => ({ argv: ['simulated'], stdin: '' }) } as unknown as Provider
  const { host, log, newId } = life.engine.parts
  const control: Control = new Control({
    ...{ clock, host, log, newId },
    engine: life.engine,
    audit: life.ledger,
    placementTable: new Map(),
    kindLabels: new Map(),
    store,
    endings,
    openStream: () => ({ leave: () => {} }) as unknown as Stream,
    catalogue: { find: () => provider, types: [], describe: async () => [] },
    environment: {},
    caps: { maxAgents: options.maxAgents ?? 1_000, minFreeBytes: 0, logBytes: 1e9, messages: 1e9, timeoutMs: never, idleMs: never },
    taskStore: simulation.tasks,
    taskLimits: { concurrent: 20, agents: 100, depth: 5, spawnRules: [], stuckThresholdMs: never, stuckAction: 'report' },
    callback: () => undefined,
    readLog: async () => ({ lines: [], next: 0 }),
    requireFolder: () => {},
    terminalOf: () => undefined,
    retentionMs: 60_000,
    retention: { byAgentType: new Map() },
    plan: options.plan ?? (() => []),
    requireReady: async () => {},
    runningProcesses: async () => {
      looks.count += 1
      return processes
    },
    describeProcess: () => undefined,
    residentBytes: (pid) => pid * 1_000,
    configPath: (agentId, name) => `/run/${agentId}.${name}`,
    freeBytes: () => 1e12,
    archives,
  })
  return { control, life, immovable, removed, processes, looks }
}

export async function launchIn(simulation: Simulation, { control }: SimulatedControl, namespace: string): Promise<string> {
  const request = { type: 'simulated', prompt: '', namespace, configuration: {} }
  return (await simulation.clock.run(control.agents.launch(request))).agent.id
}
