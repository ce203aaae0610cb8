import { EbbError, isEbbError } from '../domain/errors.ts'
import type { Engine } from '../engine/engine.ts'

/** Namespaces keep users of one server apart. Each has generations: a reset closes one, and the next opens when it is through. */
export class Namespaces {
  readonly #engine: Engine
  /** By name, the generations that are not over; the last one is open, unless it was closed. */
  readonly #generations = new Map<string, readonly string[]>()
  readonly #resetting = new Map<string, number>()
  #resettingAll = 0
  /** How many resets there were, of one and of all. */
  readonly #resets = new Map<string | undefined, number>()

  constructor(engine: Engine) {
    this.#engine = engine
  }

  /** The scope that takes in what is launched into the namespace now. */
  enter(name: string): string {
    if (this.#resettingAll > 0 || this.#resetting.has(name)) throw resetting(name)
    const living = this.#living(name)
    const newest = living.at(-1)
    if (newest !== undefined && this.#engine.parts.book.find(newest)?.state === 'open') return newest
    const { id } = this.#engine.openScope({ id: `namespace-${this.#engine.parts.newId()}`, kind: 'namespace', label: name })
    this.#generations.set(name, [...living, id])
    return id
  }

  /** A launch whose scope was closed, or whose row went, is told the reason when that was a reset since `before`. */
  explain(name: string, before: number, error: unknown): unknown {
    const isLost = isEbbError(error, 'scope_closed') || isEbbError(error, 'agent_not_found')
    return isLost && this.resets(name) !== before ? resetting(name) : error
  }

  resets(name: string): number {
    return (this.#resets.get(name) ?? 0) + (this.#resets.get(undefined) ?? 0)
  }

  /** The generations of a namespace, or of all, that are not over: the open one, and those that could not be released. */
  scopesOf(name: string | undefined): readonly string[] {
    return name === undefined ? [...this.#generations.keys()].flatMap((known) => this.#living(known)) : this.#living(name)
  }

  #living(name: string): readonly string[] {
    return (this.#generations.get(name) ?? []).filter((id) => this.#engine.parts.book.find(id))
  }

  /** Nothing is launched into it until `done` has settled; then the next generation is open. */
  async reset<T>(name: string | undefined, work: () => Promise<T>): Promise<T> {
    this.#mark(name, 1)
    this.#resets.set(name, (this.#resets.get(name) ?? 0) + 1)
    try {
      return await work()
    } finally {
      this.#mark(name, -1)
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
