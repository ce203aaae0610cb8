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
 * Some agents of one kind at once, and what is left of them: the same eyes as for every way to stop. Several wait for each
 * other at a gate, so that what has just begun has just begun in all of them.
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
      // No mark is the beginning of another one.
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
    if (!launch) throw new Error('There is no agent to be stopped.')
    return launch
  }

  async stands(): Promise<void> {
    if (this.#gate !== undefined) {
      await waitUntil(() => this.#members.every(({ waits }) => waits?.() ?? true), 120_000, 'all agents of the crew are at the gate')
      // It stays open, for whoever has said that it waits and has not come to it yet.
      this.#openGate = openSync(this.#gate, constants.O_RDWR)
    }
    const allStand = (): boolean => this.#members.every(({ place, stands }) => stands(processesOf(place.mark)))
    await waitUntil(allStand, 120_000, 'all agents of the crew stand')
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
