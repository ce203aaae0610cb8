import { writeSync } from 'node:fs'
import type { Crash, Moment, Said } from './job.ts'

/** The calls that only read the store, or prepare rows. A crash at one is the same as a crash between two effects. */
const reads = new Set(['ledger.incarnations', 'ledger.contents', 'ledger.reports', 'agents.newAgent', 'agents.newOwner'])

/**
 * Wraps the ports, counts their calls, and ends this process with SIGKILL at one of them. It has no list of effects: a new function of
 * a port is a crash point at once.
 */
export class CrashPoint {
  readonly #crash: Crash | undefined
  #count = 0
  #later = 0
  /** The number of effects so far that match the crash. */
  #candidates = 0

  constructor(crash: Crash | undefined) {
    this.#crash = crash
  }

  get count(): number {
    return this.#count
  }

  /** The number of effects (calls that change the system) so far, for each moment at which a crash can be injected: before, during, after. */
  get counts(): Readonly<Record<Moment, number>> {
    return { before: this.#count, during: this.#later, after: this.#later }
  }

  wrap<T extends object>(name: string, port: T): T {
    return new Proxy(port, {
      get: (target, key) => {
        const value: unknown = Reflect.get(target, key)
        if (typeof value !== 'function') return value
        const effect = `${name}.${String(key)}`
        const call = (...args: unknown[]): unknown => Reflect.apply(value, target, args)
        return typeof key === 'symbol' || reads.has(effect) ? call : (...args: unknown[]) => this.#around(effect, () => call(...args))
      },
    })
  }

  #around(effect: string, act: () => unknown): unknown {
    this.#count += 1
    const when = this.#crash?.when
    if (when === 'before' && this.#isCrashPoint(effect)) die(`before ${effect}`)
    const answer = act()
    if (answer instanceof Promise) this.#later += 1
    if (!(answer instanceof Promise) || when === undefined || when === 'before' || !this.#isCrashPoint(effect)) return answer
    if (when === 'during') die(`during ${effect}`)
    return answer.finally(() => die(`after ${effect}`))
  }

  #isCrashPoint(effect: string): boolean {
    if (this.#crash?.effect !== undefined && this.#crash.effect !== effect) return false
    this.#candidates += 1
    return this.#candidates === this.#crash?.at
  }
}

function die(effect: string): void {
  say({ is: 'crash', effect })
  process.kill(process.pid, 'SIGKILL')
}

/** Prints a line for the test. The write is synchronous, because the process may be killed right after it. */
export function say(said: Said): void {
  writeSync(1, `${JSON.stringify(said)}\n`)
}
