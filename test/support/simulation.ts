import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Adopter, ReaperPass } from '../../src/core/engine/api.ts'
import { SupervisorEngine } from '../../src/core/engine/engine.ts'
import { Reaper } from '../../src/core/engine/reap.ts'
import { dropsLogs } from '../../src/core/model/close-request.ts'
import type { Vitality } from '../../src/core/model/identity.ts'
import type { Report } from '../../src/core/model/report.ts'
import type { AgentStore } from '../../src/core/ports/agents.ts'
import type { Endings } from '../../src/core/ports/endings.ts'
import { label } from '../../src/core/ports/handles.ts'
import type { Host } from '../../src/core/ports/host.ts'
import { type Kinds, kindName, type Planned, planned } from '../../src/core/ports/kind.ts'
import type { Ledger, NewIntent, Settlement } from '../../src/core/ports/ledger.ts'
import type { TaskStore } from '../../src/core/ports/tasks.ts'
import { openSqliteStore, type Store } from '../../src/store/sqlite/store.ts'
import { type Fault, Faults } from './faults.ts'
import { SimulatedKind, SimulatedWorld, type ThingKindName, type ThingSpec } from './simulated-world.ts'
import { VirtualClock } from './virtual-clock.ts'

/** The real engine and the real ledger in a simulated system, on simulated time. `live` starts one supervisor after another. */

export const listedKind = kindName<{ spec: ThingSpec }>('listed')
export const unlistedKind = kindName<{ spec: ThingSpec }>('unlisted')
export const remoteKind = kindName<{ spec: ThingSpec }>('elsewhere')
export const lastKind = kindName<{ spec: ThingSpec }>('last')

export interface LifeOptions {
  readonly deck?: readonly Fault[]
  /** False: a creation may never answer, as when the process is killed. */
  readonly creationsComeBack?: boolean
  readonly minimumAgeMs?: number
  readonly endings?: Endings
  readonly adopter?: Adopter
  /** False: this supervisor has no settings for remote placements. */
  readonly knowsElsewhere?: boolean
}

export interface Life {
  readonly id: string
  readonly engine: SupervisorEngine
  readonly reaper: Reaper
  readonly faults: Faults
  readonly ledger: Ledger
  readonly reports: readonly Report[]
  readonly logged: readonly string[]
  /** SIGKILL: later calls of this supervisor have no effect. */
  die(): void
}

export const reaperIntervalMs = 60_000

export class Simulation implements AsyncDisposable {
  readonly clock: VirtualClock
  readonly world: SimulatedWorld
  readonly vitality = new Map<string, Vitality>()
  readonly #folder = mkdtempSync(join(existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), 'ebb-simulation-'))
  #store: Store | undefined
  #ids = 0
  #lives = 0

  constructor(turns?: number) {
    this.clock = new VirtualClock(turns)
    this.world = new SimulatedWorld(this.clock)
  }

  /** `turns` is the number of event loop turns per step of simulated time. A call that makes many calls in sequence needs more turns. */
  static async open(turns?: number): Promise<Simulation> {
    const simulation = new Simulation(turns)
    // The engine imports this module on first use. The import takes real time, during which simulated time would stand still.
    await import('../../src/core/engine/status.ts')
    simulation.#store = await openSqliteStore({ file: join(simulation.#folder, 'ebb.db'), clock: simulation.clock })
    return simulation
  }

  /** The ledger itself, without faults. */
  get store(): Ledger {
    return this.#opened.ledger
  }

  get agents(): AgentStore {
    return this.#opened.agents
  }

  get tasks(): TaskStore {
    return this.#opened.tasks
  }

  get #opened(): Store {
    if (!this.#store) throw new Error('The simulation is not open.')
    return this.#store
  }

  live(options: LifeOptions = {}): Life {
    const id = `life${++this.#lives}`
    const faults = new Faults(this.clock, options.deck)
    const reports: Report[] = []
    const logged: string[] = []
    const log = (message: string): void => void logged.push(message)
    const ledger = this.#wrapLedger(faults)
    const engine = new SupervisorEngine({
      ledger,
      kinds: this.#kinds(faults, options),
      clock: this.clock,
      host: this.#host(id),
      sentinel: { ready: async () => {}, dismiss: () => {} },
      log: { debug: log, info: log, warn: log, error: log },
      newId: () => `id${++this.#ids}`,
      ...(options.endings && { endings: options.endings }),
      ...(options.adopter && { adopter: options.adopter }),
      reaper: { intervalMs: reaperIntervalMs, minimumAgeMs: options.minimumAgeMs ?? 1_000 },
    })
    engine.on('report', (report) => reports.push(report))
    this.vitality.set(id, 'alive')
    this.world.isOpen.set(id, (scopeId) => engine.parts.registry.find(scopeId)?.state === 'open')
    const reaper = new Reaper(engine.parts)
    const die = (): void => {
      faults.isDead = true
      this.vitality.set(id, 'dead')
    }
    return { id, engine, reaper, faults, ledger, reports, logged, die }
  }

  #kinds(faults: Faults, { creationsComeBack = true, knowsElsewhere = true }: LifeOptions): Kinds {
    return new Map<string, SimulatedKind>(
      [listedKind, unlistedKind, lastKind, ...(knowsElsewhere ? [remoteKind] : [])].map((kind) => {
        const is = {
          ...{ kind, isListed: kind !== unlistedKind, isRemote: kind === remoteKind, goesLast: kind === lastKind },
          creationsComeBack,
        }
        return [kind, new SimulatedKind(this.world, faults, is)]
      }),
    )
  }

  #host(id: string): Host {
    return {
      installation: 'here',
      incarnation: { bootId: 'boot', pidNamespace: '1', pid: this.#lives, startTime: String(this.#lives) },
      incarnationId: id,
      isThisBoot: () => true,
      vitality: (other) => this.vitality.get(other) ?? 'dead',
    }
  }

  /**
   * A ledger with faults, which records in the simulated system what is durable. This ledger always answers, because the real ledger has a
   * deadline of its own.
   */
  #wrapLedger(faults: Faults): Ledger {
    return new Proxy(this.store, {
      get: (target, key) => {
        const value: unknown = Reflect.get(target, key)
        if (typeof value !== 'function' || typeof key === 'symbol') return value
        return async (...args: unknown[]): Promise<unknown> =>
          await faults.around(`ledger.${key}`, async () => {
            if (key === 'settle') this.#checkSettlement(args[0] as Settlement)
            const answer: unknown = await Reflect.apply(value, target, args)
            if (key === 'intend') for (const intent of args[1] as readonly NewIntent[]) this.world.intended.add(intent.id)
            if (key === 'beginClose') await this.#noteDropped()
            if (key === 'adopt') this.world.intended.add((args[1] as NewIntent).id)
            return answer
          }, ['mute', 'deaf'])
      },
    })
  }

  async #noteDropped(): Promise<void> {
    for (const { id, closeRequest } of (await this.store.contents()).scopes)
      if (closeRequest && dropsLogs(closeRequest)) this.world.dropped.add(id)
  }

  #checkSettlement(settlement: Settlement): void {
    const { things, seenAbsent, violations } = this.world
    for (const { resourceId, state } of settlement.outcomes) {
      if (state !== 'released') continue
      if (things.has(resourceId)) violations.push(`G3: ${resourceId} was recorded as released while it existed`)
      if (!seenAbsent.has(resourceId))
        violations.push(`G4: ${resourceId} was recorded as released, but no observation had proven it absent`)
    }
    for (const { id, scopeId } of things.values()) {
      if (settlement.closedScopeIds.includes(scopeId)) violations.push(`G2: ${scopeId} was recorded as closed while ${id} existed`)
    }
  }

  /** Resources and scopes that are still open in the ledger. */
  async openBooks(): Promise<readonly string[]> {
    const { scopes, resources } = await this.clock.run(this.store.contents())
    return [
      ...resources.filter(({ state }) => state !== 'released').map(({ id, state }) => `${id} ${state}`),
      ...scopes.filter(({ state }) => state !== 'closed').map(({ id, state }) => `scope ${id} ${state}`),
    ]
  }

  async pass(reaper: Reaper, dryRun = false): Promise<ReaperPass> {
    return await this.clock.run(reaper.pass({ dryRun }))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.clock.run(Promise.resolve(this.store[Symbol.asyncDispose]()))
    rmSync(this.#folder, { recursive: true, force: true })
  }
}

export function thing(name: string, is: Partial<ThingSpec> & { kind?: ThingKindName; dependsOn?: readonly string[] } = {}): Planned {
  const { kind = listedKind, dependsOn = [], hears = 'polite', times = 1, owes = [], ...nature } = is
  return planned({ label: label(name), kind, dependsOn, spec: { hears, times, owes, ...nature } })
}
