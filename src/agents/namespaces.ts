import type { Engine } from '../core/engine/api.ts'
import { EbbError, isEbbError } from '../core/model/errors.ts'
import type { NewId } from '../core/ports/ids.ts'

/** For how many recent agents the namespace is kept in memory, also after their rows are gone. */
const rememberedAtMost = 10_000

/** A launch that is running. */
interface Launch {
  readonly name: string
  /** True when a reset of the launch's namespace, or of all namespaces, has begun since the launch began. */
  metReset: boolean
}

/** Namespaces separate the users of one server. Each has generations of scopes: a reset closes one, and the next opens after the reset. */
export class Namespaces {
  readonly #engine: Engine
  readonly #newId: NewId
  /** The scope ids of unfinished generations, by namespace. Only the last one can be open. */
  readonly #generations = new Map<string, readonly string[]>()
  readonly #resetting = new Map<string, number>()
  #resettingAll = 0
  readonly #launches = new Set<Launch>()
  readonly #nameOf = new Map<string, string>()

  constructor(engine: Engine, newId: NewId) {
    this.#engine = engine
    this.#newId = newId
  }

  /** Returns the namespace's open scope; opens one if needed. */
  enter(name: string): string {
    if (this.#resettingAll > 0 || this.#resetting.has(name)) throw resetting(name)
    const living = this.#living(name)
    const newest = living.at(-1)
    if (newest !== undefined && this.#engine.inspect(newest)?.state === 'open') return newest
    const { id } = this.#engine.openScope({ id: `namespace-${this.#newId()}`, kind: 'namespace', label: name })
    this.#generations.set(name, [...living, id])
    return id
  }

  /** Runs a launch. When it fails because a reset closed its scope or deleted its row, the error is `resetting`. */
  async launching<T>(name: string, work: () => Promise<T>): Promise<T> {
    const launch: Launch = { name, metReset: false }
    this.#launches.add(launch)
    try {
      return await work()
    } catch (error) {
      const isLost = isEbbError(error, 'scope_closed') || isEbbError(error, 'agent_not_found')
      throw isLost && launch.metReset ? resetting(name) : error
    } finally {
      this.#launches.delete(launch)
    }
  }

  /**
   * Records the namespace of an agent. Call it before anything of the agent exists, so that its resources can be attributed to the
   * namespace even without a row.
   */
  remember(agentId: string, name: string): void {
    this.#nameOf.set(agentId, name)
    const [oldest] = this.#nameOf.keys()
    if (oldest !== undefined && this.#nameOf.size > rememberedAtMost) this.#nameOf.delete(oldest)
  }

  /** The namespace of a scope of this process, if it is known. */
  nameOf(scopeId: string): string | undefined {
    return this.#nameOf.get(scopeId) ?? this.#engine.namespaceOf(scopeId)
  }

  /** The unfinished generations of one namespace or of all: the open one, and those that could not be released. */
  scopesOf(name: string | undefined): readonly string[] {
    return name === undefined ? [...this.#generations.keys()].flatMap((known) => this.#living(known)) : this.#living(name)
  }

  #living(name: string): readonly string[] {
    return (this.#generations.get(name) ?? []).filter((id) => this.#engine.owns(id))
  }

  /** Refuses launches into the namespace until `work` has settled. After that, the next launch opens a new generation. */
  async reset<T>(name: string | undefined, work: () => Promise<T>): Promise<T> {
    this.#mark(name, 1)
    for (const launch of this.#launches) if (name === undefined || launch.name === name) launch.metReset = true
    try {
      return await work()
    } finally {
      this.#mark(name, -1)
      for (const known of [...this.#generations.keys()]) if (this.#living(known).length === 0) this.#generations.delete(known)
    }
  }

  #mark(name: string | undefined, by: 1 | -1): void {
    if (name === undefined) {
      this.#resettingAll += by
      return
    }
    const count = (this.#resetting.get(name) ?? 0) + by
    if (count === 0) this.#resetting.delete(name)
    else this.#resetting.set(name, count)
  }
}

function resetting(name: string): EbbError {
  return new EbbError('resetting', `The namespace ${name} is being reset; launch again when the reset has answered.`)
}
