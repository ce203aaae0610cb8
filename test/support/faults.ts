import type { VirtualClock } from './virtual-clock.ts'

/** The outcome of one call to a port. */
export type Fate =
  | 'well'
  /** The call has no effect and fails with an error. */
  | 'refused'
  /** The call has its effect and fails with an error, as with a lost reply. */
  | 'lost'
  /** The call has its effect after a delay. */
  | 'slow'
  /** The call has its effect and never answers. */
  | 'mute'
  /** The call has no effect and never answers. */
  | 'deaf'

export interface Fault {
  readonly fate: Fate
  readonly delayMs: number
  /** True: a call that observes a resource answers `unknown`. */
  readonly isBlind: boolean
}

/**
 * Assigns faults to calls in their order, from a list that a property test generates. `isCalm`: all calls succeed. `isDead`: the simulated
 * process is dead; its calls have no effect and no answer.
 */
export class Faults {
  readonly #clock: VirtualClock
  readonly #deck: readonly Fault[]
  readonly #scripted = new Map<string, Fault[]>()
  readonly #calls = new Map<string, number>()
  #next = 0
  isCalm = false
  isDead = false

  constructor(clock: VirtualClock, deck: readonly Fault[] = []) {
    this.#clock = clock
    this.#deck = deck
  }

  /** Sets the fates of the next calls of one operation, for a test with a fixed scenario. */
  next(operation: string, fates: readonly Fate[], delayMs = 0): void {
    this.#scripted.set(
      operation,
      fates.map((fate) => ({ fate, delayMs, isBlind: false })),
    )
  }

  /** The next observations answer `unknown`. */
  blind(count: number): void {
    this.#scripted.set(
      'observe',
      Array.from({ length: count }, () => ({ ...well, isBlind: true })),
    )
  }

  /** The number of calls of an operation. */
  calls(operation: string): number {
    return this.#calls.get(operation) ?? 0
  }

  /** Runs one call with its fault. A fate that the operation cannot have is replaced by `slow`. */
  async around<T>(operation: string, act: (fault: Fault) => T | Promise<T>, without: readonly Fate[] = []): Promise<T> {
    if (this.isDead) return await never()
    this.#calls.set(operation, this.calls(operation) + 1)
    const fault = this.#scripted.get(operation)?.shift() ?? this.#deal()
    const fate = without.includes(fault.fate) ? 'slow' : fault.fate
    if (fate === 'deaf') return await never()
    if (fate === 'refused') throw new Error(`simulated: ${operation} was refused`)
    if (fate === 'slow') await this.#clock.pause(fault.delayMs)
    if (this.isDead) return await never()
    const answer = await act(fault)
    if (fate === 'mute' || this.isDead) return await never()
    if (fate === 'lost') throw new Error(`simulated: the answer to ${operation} was lost`)
    return answer
  }

  #deal(): Fault {
    return this.isCalm ? well : (this.#deck[this.#next++ % this.#deck.length] ?? well)
  }
}

const well: Fault = { fate: 'well', delayMs: 0, isBlind: false }

/** A promise that never settles. */
export function never(): Promise<never> {
  return new Promise(() => {})
}
