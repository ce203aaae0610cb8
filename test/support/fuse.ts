import type { Effects } from '../../src/core/ports/effects.ts'
import { realEffects } from '../../src/host/effects.ts'

/** The error that stands for the death of a process. */
export class Crash extends Error {}

/** Counts all effects, calls of the ledger included, and throws before or after the effect with the number `point`. */
export class Fuse {
  readonly #point: number
  readonly #when: 'before' | 'after'
  #count = 0
  hasBlown = false

  constructor(point: number, when: 'before' | 'after') {
    this.#point = point
    this.#when = when
  }

  burn<T>(effect: () => T): T {
    this.#count += 1
    const isHere = this.#count === this.#point
    this.hasBlown ||= isHere
    if (isHere && this.#when === 'before') throw new Crash()
    const result = effect()
    if (isHere) throw new Crash()
    return result
  }
}

export function fused(fuse: Fuse): Effects {
  return new Proxy(realEffects, {
    get:
      (target, key: keyof Effects) =>
      (...args: unknown[]) =>
        fuse.burn(() => Reflect.apply(target[key], target, args) as unknown),
  })
}
