import type { VirtualClock } from './virtual-clock.ts'

/** How one call to the outside goes. */
export type Fate =
  | 'well'
  /** Nothing happens, and it says so. */
  | 'refused'
  /** It happens, and the answer is an error: a lost reply. */
  | 'lost'
  /** It happens, after a while. */
  | 'slow'
  /** It happens, and no answer ever comes. */
  | 'mute'
  /** Nothing happens, and no answer ever comes. */
  | 'deaf'

export interface Fault {
  readonly fate: Fate
  readonly delayMs: number
  /** An observation that answers answers with `unknown`. */
  readonly isBlind: boolean
}

/**
 * Deals out fates in the order of the calls, from a list that a property generates. Calm means that all goes well; dead
 * means that this process is no more: nothing that it asks for happens, and nothing answers it.
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

  /** The fates of the next calls of one operation, for a test that tells a story. */
  next(operation: string, fates: readonly Fate[], delayMs = 0): void {
    this.#scripted.set(
      operation,
      fates.map((fate) => ({ fate, delayMs, isBlind: false })),
    )
  }

  /** The next observations that answer know nothing. */
  blind(looks: number): void {
    this.#scripted.set(
      'observe',
      Array.from({ length: looks }, () => ({ ...well, isBlind: true })),
    )
  }

  /** How often an operation was asked for. */
  calls(operation: string): number {
    return this.#calls.get(operation) ?? 0
  }

  /** A fate that the operation does not have is taken as `slow`. */
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

/** An answer that does not come. */
export function never(): Promise<never> {
  return new Promise(() => {})
}
