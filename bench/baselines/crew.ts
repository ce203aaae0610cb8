import { execFileSync } from 'node:child_process'
import { closeSync, constants, openSync } from 'node:fs'
import { join } from 'node:path'
import { waitUntil } from '../../test/support/world.ts'
import { countProcesses, filesOf, processesOf } from '../leaks/checker.ts'
import { Place } from '../leaks/place.ts'
import type { Prepared, Program } from '../leaks/program.ts'
import type { Launch } from '../leaks/way.ts'

type Member = Prepared & { readonly place: Place }

/**
 * Several agents of one program at once. The checker counts what is left of them, as for every way to stop. Several agents wait for each other at a
 * gate, so that the measured step begins in all of them at the same time.
 */
export class Crew implements AsyncDisposable {
  readonly #members: readonly Member[]
  readonly #gate: string | undefined
  #openGate: number | undefined

  private constructor(members: readonly Member[], gate: string | undefined) {
    this.#members = members
    this.#gate = gate
  }

  static async of(program: Program, count: number, base: string, mark: string): Promise<Crew> {
    const gate = count > 1 ? join(base, 'gate') : undefined
    if (gate !== undefined) execFileSync('mkfifo', [gate])
    const members = Array.from({ length: count }, async (_, index) => {
      // The mark of one agent must not be a prefix of another agent's mark, because the checker searches for the mark in texts.
      const place = new Place(base, `${mark}n${index}z`)
      return Object.assign(await program.prepare(place, gate), { place })
    })
    return new Crew(await Promise.all(members), gate)
  }

  get launches(): readonly Launch[] {
    return this.#members.map(({ launch }) => launch)
  }

  get first(): Launch {
    const [launch] = this.launches
    if (!launch) throw new Error('The crew has no agent.')
    return launch
  }

  async ready(): Promise<void> {
    if (this.#gate !== undefined) {
      await waitUntil(() => this.#members.every(({ isAtGate }) => isAtGate?.() ?? true), 120_000, 'all agents of the crew are at the gate')
      // The gate is a named pipe. It stays open for agents that have reported that they wait, and have not opened the pipe yet.
      this.#openGate = openSync(this.#gate, constants.O_RDWR)
    }
    const areReady = (): boolean => this.#members.every(({ place, isReady }) => isReady(processesOf(place.mark)))
    await waitUntil(areReady, 120_000, 'all agents of the crew are ready')
  }

  processes(): number {
    return this.#members.reduce((sum, { place }) => sum + countProcesses(place), 0)
  }

  files(): number {
    return this.#members.reduce((sum, { place }) => sum + filesOf(place).count, 0)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#openGate !== undefined) closeSync(this.#openGate)
    for (const member of this.#members) {
      await member[Symbol.asyncDispose]()
      member.place[Symbol.dispose]()
    }
  }
}
