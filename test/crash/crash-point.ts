import { writeSync } from 'node:fs'
import type { Crash, Moment, Said } from './job.ts'

/** Looking at the books changes nothing, so a crash there is a crash between two effects. */
const looks = new Set(['ledger.incarnations', 'ledger.contents', 'ledger.reports'])

/**
 * Wraps the ports, counts what they are asked to do, and ends this process with SIGKILL at one of those effects. No
 * list of effects exists anywhere: a new function of a port is a new crash point by itself.
 */
export class CrashPoint {
  readonly #crash: Crash | undefined
  #count = 0
  #later = 0
  /** Effects so far that the crash could have been at. */
  #candidates = 0

  constructor(crash: Crash | undefined) {
    this.#crash = crash
  }

  get count(): number {
    return this.#count
  }

  /** By the moments that count them. */
  get counts(): Readonly<Record<Moment, number>> {
    return { before: this.#count, during: this.#later, after: this.#later }
  }

  wrap<T extends object>(name: string, port: T): T {
    return new Proxy(port, {
      get: (target, key) => {
        const value: unknown = Reflect.get(target, key)
        if (typeof value !== 'function') return value
        const effect = `${name}.${String(key)}`
        const call = (...given: unknown[]): unknown => Reflect.apply(value, target, given)
        return typeof key === 'symbol' || looks.has(effect) ? call : (...given: unknown[]) => this.#around(effect, () => call(...given))
      },
    })
  }

  #around(effect: string, act: () => unknown): unknown {
    this.#count += 1
    const when = this.#crash?.when
    if (when === 'before' && this.#isIt(effect)) die(`before ${effect}`)
    const answer = act()
    if (answer instanceof Promise) this.#later += 1
    if (!(answer instanceof Promise) || when === undefined || when === 'before' || !this.#isIt(effect)) return answer
    if (when === 'during') die(`during ${effect}`)
    return answer.finally(() => die(`after ${effect}`))
  }

  #isIt(effect: string): boolean {
    if (this.#crash?.effect !== undefined && this.#crash.effect !== effect) return false
    this.#candidates += 1
    return this.#candidates === this.#crash?.at
  }
}

function die(effect: string): void {
  say({ is: 'crash', effect })
  process.kill(process.pid, 'SIGKILL')
}

/** Synchronous: there is no later. */
export function say(said: Said): void {
  writeSync(1, `${JSON.stringify(said)}\n`)
}
