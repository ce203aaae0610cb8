import * as fc from 'fast-check'
import type { OwnedScope } from '../../src/core/engine/scope-registry.ts'
import type { CloseRequest } from '../../src/core/model/close-request.ts'
import { triggers } from '../../src/core/model/close-request.ts'
import { ladderSteps } from '../../src/core/model/ladder.ts'
import type { Planned } from '../../src/core/ports/kind.ts'
import type { Fault } from './faults.ts'
import { type Life, listedKind, type Simulation, thing, unlistedKind } from './simulation.ts'

/** Random scope trees, plans, close requests, faults and interleavings, and the player that runs them. */

export type Command =
  | { readonly does: 'open'; readonly parent: number }
  /** With `above`, every resource of the plan also depends on a resource of a parent scope. */
  | { readonly does: 'launch' | 'acquire'; readonly scope: number; readonly plan: readonly Planned[]; readonly above?: number }
  | { readonly does: 'close'; readonly scope: number; readonly closeRequest: CloseRequest }
  | { readonly does: 'reap' }
  | { readonly does: 'recover' }
  | { readonly does: 'wait'; readonly ms: number }

/** Most calls succeed. With more faults, hardly any command would get far enough to find an interesting failure. */
const fault: fc.Arbitrary<Fault> = fc.record({
  fate: fc.oneof(
    { weight: 8, arbitrary: fc.constant('well' as const) },
    { weight: 4, arbitrary: fc.constantFrom('refused', 'lost', 'mute', 'deaf') },
    { weight: 3, arbitrary: fc.constant('slow' as const) },
  ),
  delayMs: fc.oneof(fc.nat(20), fc.nat(3_000), fc.nat(60_000)),
  isBlind: fc.oneof({ weight: 9, arbitrary: fc.constant(false) }, { weight: 1, arbitrary: fc.constant(true) }),
})

export const decks: fc.Arbitrary<readonly Fault[]> = fc.array(fault, { maxLength: 40 })

export const plans: fc.Arbitrary<readonly Planned[]> = fc
  .array(
    fc.record({
      kind: fc.constantFrom(listedKind, unlistedKind),
      hears: fc.constantFrom(...ladderSteps),
      times: fc.integer({ min: 1, max: 3 }),
      owes: fc.subarray(['archive', 'upload']),
      needs: fc.array(fc.nat(5), { maxLength: 3 }),
    }),
    { minLength: 1, maxLength: 5 },
  )
  .map((items) =>
    items.map(({ needs, ...is }, index) => {
      // Resources depend only on earlier ones of the same plan, because a launch walks its plan in order.
      const dependsOn = [...new Set(needs.filter((other) => other < index).map((other) => `thing${other}`))]
      return thing(`thing${index}`, { ...is, dependsOn })
    }),
  )

export const closeRequests: fc.Arbitrary<CloseRequest> = fc
  .record(
    {
      trigger: fc.constantFrom(...triggers),
      force: fc.constant(true),
      forget: fc.constant(true),
      graceMs: fc.nat(2_000),
      deadlineMs: fc.nat(5_000),
    },
    { requiredKeys: ['trigger'] },
  )
  .map((closeRequest) => closeRequest as CloseRequest)

const optionalAbove = { requiredKeys: ['does', 'scope', 'plan'] } satisfies { requiredKeys: ('does' | 'scope' | 'plan')[] }

export const commands: fc.Arbitrary<readonly Command[]> = fc.array(
  fc.oneof(
    { weight: 3, arbitrary: fc.record({ does: fc.constant('open' as const), parent: fc.nat(8) }) },
    {
      weight: 4,
      arbitrary: fc.record({ does: fc.constantFrom('launch', 'acquire'), scope: fc.nat(8), plan: plans, above: fc.nat(20) }, optionalAbove),
    },
    { weight: 4, arbitrary: fc.record({ does: fc.constant('close' as const), scope: fc.nat(8), closeRequest: closeRequests }) },
    { weight: 1, arbitrary: fc.constantFrom({ does: 'reap' as const }, { does: 'recover' as const }) },
    { weight: 4, arbitrary: fc.record({ does: fc.constant('wait' as const), ms: fc.oneof(fc.nat(50), fc.nat(5_000), fc.nat(60_000)) }) },
  ),
  { minLength: 3, maxLength: 25 },
)

/** Runs the commands without waiting for any but `wait`. Their operations may still be running at the end. */
export class Player {
  readonly #simulation: Simulation
  readonly #life: Life
  readonly #scopes: OwnedScope[] = []
  readonly pending: Promise<unknown>[] = []

  constructor(simulation: Simulation, life: Life) {
    this.#simulation = simulation
    this.#life = life
  }

  async play(all: readonly Command[]): Promise<void> {
    for (const command of all) {
      if (command.does === 'wait') await this.#simulation.clock.run(this.#simulation.clock.pause(command.ms))
      else this.#begin(command)
    }
  }

  #begin(command: Exclude<Command, { does: 'wait' }>): void {
    if (command.does === 'open') this.#open(command.parent)
    // A refused operation is a legal outcome. The guarantees are checked on the simulated system.
    else this.pending.push(this.#run(command).catch(() => {}))
  }

  #run(command: Exclude<Command, { does: 'wait' | 'open' }>): Promise<unknown> {
    const { engine, reaper } = this.#life
    if (command.does === 'reap') return reaper.pass({ dryRun: false })
    if (command.does === 'recover') return engine.recover()
    const scope = this.#scopes[command.scope % Math.max(1, this.#scopes.length)]
    if (!scope) return Promise.resolve()
    if (command.does === 'close') return engine.close(scope.id, command.closeRequest)
    return engine[command.does](scope, this.#withAbove(scope, command.plan, command.above))
  }

  #open(parent: number): void {
    const parents = [undefined, ...this.#scopes.map(({ id }) => id)]
    const parentId = parents[parent % parents.length]
    try {
      this.#scopes.push(
        this.#life.engine.openScope({ id: this.#life.engine.parts.newId(), kind: 'agent', ...(parentId !== undefined && { parentId }) }),
      )
    } catch {
      // The parent scope is closing and refuses the child (G13).
    }
  }

  #withAbove(scope: OwnedScope, plan: readonly Planned[], above: number | undefined): readonly Planned[] {
    const { registry } = this.#life.engine.parts
    const ids: string[] = []
    for (let up = registry.find(scope.parentId ?? ''); up; up = registry.find(up.parentId ?? '')) {
      ids.push(...[...up.entries.values()].filter(({ state }) => state === 'held').map(({ intent }) => intent.id))
    }
    const id = above === undefined ? undefined : ids[above % Math.max(1, ids.length)]
    return id === undefined ? plan : plan.map((planned) => ({ ...planned, dependsOn: [...(planned.dependsOn ?? []), id] }))
  }
}
