import type { Policy } from '../../src/core/model/close-request.ts'
import type { LadderStep } from '../../src/core/model/ladder.ts'
import { absent, type Presence, type Proof, present, unknown, unsettled } from '../../src/core/model/resource.ts'
import type { Clock } from '../../src/core/ports/clock.ts'
import type { CreateCtx, Created, Ctx, Found, IntentOf, KindName, Owner, ResourceKind, StepEffect } from '../../src/core/ports/kind.ts'
import { type Faults, never } from './faults.ts'

/**
 * Named things in memory, and kinds for them that fail as a test demands. Every call of the engine is checked as it happens. A broken
 * guarantee is added to `violations` with its number.
 */

export interface ThingSpec {
  /** The gentlest step that ends the thing. */
  readonly hears: LadderStep
  /** How many steps of that strength, or stronger, the thing needs until it ends. */
  readonly times: number
  /** Obligations: work that must be done before the thing is destroyed. */
  readonly owes: readonly string[]
  /** The time that the thing needs to end, as its kind reports it. */
  readonly patienceMs?: number
  /** The time after which the obligations of the thing are given up. */
  readonly givesUpAfterMs?: number
  /**
   * True: an observation that cannot see the thing is `unsettled`, because the thing becomes known after a while. Otherwise it is
   * `unknown`.
   */
  readonly settles?: boolean
}

export type ThingKindName = KindName<{ spec: ThingSpec; live: undefined; detail: undefined; handle: undefined }>

export interface Thing {
  readonly kind: string
  readonly id: string
  readonly scopeId: string
  readonly incarnation: string
  readonly spec: ThingSpec
  readonly dependsOn: readonly string[]
  readonly owes: Set<string>
  timesLeft: number
}

export interface ThingRef extends Omit<Thing, 'timesLeft' | 'owes'> {}

const order: readonly LadderStep[] = ['polite', 'terminate', 'kill']

export class SimulatedWorld {
  readonly clock: Clock
  readonly things = new Map<string, Thing>()
  readonly violations: string[] = []
  /** Ids whose intent is durable. Filled by the ledger's wrapper. */
  readonly intended = new Set<string>()
  /** The last observation of each thing that the engine received. */
  readonly lastSeen = new Map<string, Presence['is']>()
  /**
   * Things that an observation has proven absent, and no later observation has found present. A later observation without an answer
   * disproves nothing.
   */
  readonly seenAbsent = new Set<string>()
  /** Things that were destroyed with unmet obligations, though the ledger had no request to drop them. */
  readonly lost = new Set<string>()
  /** Scopes for which the ledger has a request to drop obligations. Filled by the ledger's wrapper. */
  readonly dropped = new Set<string>()
  readonly archive = new Set<string>()
  /** Incarnations whose shared parts were removed. */
  readonly tidied: string[] = []
  /** Ids of the things that were released, in order. */
  readonly releases: string[] = []
  /** By incarnation: whether a scope accepts resources. Read from the scope registry of each engine. */
  readonly isOpen = new Map<string, (scopeId: string) => boolean>()
  readonly #returning = new Map<string, { readonly ref: ThingRef; times: number }>()
  readonly #departures = new Map<string, PromiseWithResolvers<void>>()

  constructor(clock: Clock) {
    this.clock = clock
  }

  add(ref: ThingRef): void {
    if (!this.intended.has(ref.id)) this.violations.push(`G1: ${ref.id} was made before its intent was durable`)
    this.seenAbsent.delete(ref.id)
    this.things.set(ref.id, { ...ref, owes: new Set(ref.spec.owes), timesLeft: ref.spec.times })
  }

  /** Adds a thing that existed before, or that another program made. */
  place(ref: ThingRef): void {
    this.intended.add(ref.id)
    this.add(ref)
  }

  /** After the thing is gone, it exists again at the next listing. This happens `times` times. */
  comesBack(id: string, is: Pick<ThingSpec, 'hears' | 'times'>, times = 1): void {
    const thing = this.things.get(id)
    if (thing) this.#returning.set(id, { ref: { ...thing, spec: { ...thing.spec, ...is } }, times })
  }

  list(): readonly Thing[] {
    for (const [id, back] of this.#returning) {
      if (this.things.has(id) || back.times === 0) continue
      back.times -= 1
      this.place(back.ref)
    }
    return [...this.things.values()]
  }

  /** From now on, the first step ends the thing. */
  heal(id: string): void {
    const thing = this.things.get(id)
    if (thing) thing.timesLeft = 1
  }

  departure(id: string): Promise<void> {
    if (!this.things.has(id)) return Promise.resolve()
    const waiting = this.#departures.get(id) ?? Promise.withResolvers<void>()
    this.#departures.set(id, waiting)
    return waiting.promise
  }

  push(id: string, step: LadderStep): void {
    const thing = this.things.get(id)
    if (!thing || order.indexOf(step) < order.indexOf(thing.spec.hears)) return
    thing.timesLeft -= 1
    if (thing.timesLeft <= 0) this.#destroy(thing)
  }

  #destroy(thing: Thing): void {
    for (const other of this.things.values()) {
      if (other.dependsOn.includes(thing.id)) this.violations.push(`G7: ${thing.id} went before ${other.id}, which depends on it`)
    }
    if (thing.owes.size > 0 && !this.dropped.has(thing.scopeId)) this.lost.add(thing.id)
    this.things.delete(thing.id)
    this.#departures.get(thing.id)?.resolve()
    this.#departures.delete(thing.id)
  }

  noteCreate(ref: ThingRef): void {
    if (!this.isOpen.get(ref.incarnation)?.(ref.scopeId)) this.violations.push(`G13: ${ref.id} was created in a scope that accepts nothing`)
  }

  noteRelease(ref: ThingRef): void {
    this.releases.push(ref.id)
    const seen = this.lastSeen.get(ref.id)
    if (seen !== 'present') this.violations.push(`G4: ${ref.id} was released, though its last observation was ${seen ?? 'missing'}`)
  }

  obligations(ref: ThingRef, policy: Policy): readonly string[] {
    return policy.keepsLogs ? [...(this.things.get(ref.id)?.owes ?? [])] : []
  }

  meet(id: string, obligation: string): void {
    const thing = this.things.get(id)
    if (!thing) throw new Error(`${id} is gone, and its obligations are lost`)
    thing.owes.delete(obligation)
    this.archive.add(`${obligation} of ${id}`)
  }

  /** Things that still exist, read without the engine. */
  left(isOurs: (thing: Thing) => boolean = () => true): readonly string[] {
    return [...this.things.values()].filter(isOurs).map(({ kind, id }) => `${kind} ${id}`)
  }
}

/** One kind of the simulated system. With `isListed` false, its things can be found only through the ledger. */
export class SimulatedKind implements ResourceKind<ThingKindName, ThingRef> {
  readonly kind: ThingKindName
  readonly outlivesPower?: true
  readonly isRemote?: true
  readonly goesLast?: true
  readonly #world: SimulatedWorld
  readonly #faults: Faults
  readonly #isListed: boolean
  readonly #creationsComeBack: boolean

  constructor(
    world: SimulatedWorld,
    faults: Faults,
    is: { kind: ThingKindName; isListed: boolean; isRemote: boolean; goesLast: boolean; creationsComeBack: boolean },
  ) {
    this.kind = is.kind
    if (is.isRemote) this.isRemote = true
    if (is.goesLast) this.goesLast = true
    this.#world = world
    this.#faults = faults
    this.#isListed = is.isListed
    if (!is.isListed) this.outlivesPower = true
    this.#creationsComeBack = is.creationsComeBack
  }

  name(intent: IntentOf<ThingKindName>): ThingRef {
    const { id, scopeId, incarnation, spec, dependsOn } = intent
    return { kind: this.kind, id, scopeId, incarnation, spec, dependsOn }
  }

  describe(ref: ThingRef): string {
    return ref.id
  }

  steps(): readonly LadderStep[] {
    return order
  }

  async create(ref: ThingRef, _spec: ThingSpec, _ctx: CreateCtx): Promise<Created<ThingKindName>> {
    if (this.#faults.isDead) return await never()
    this.#world.noteCreate(ref)
    // A creation that never answers needs a test that ends the process. Here every creation answers eventually.
    const make = (): Created<ThingKindName> => {
      this.#world.add(ref)
      return {}
    }
    return await this.#faults.around('create', make, this.#creationsComeBack ? ['mute', 'deaf'] : [])
  }

  async observe(ref: ThingRef, ctx: Ctx): Promise<Presence> {
    if (this.#faults.isDead) return await never()
    const { lastSeen, seenAbsent, clock } = this.#world
    lastSeen.set(ref.id, 'unknown')
    const seen = await this.#faults.around('observe', ({ isBlind }): Presence => {
      if (isBlind) return ref.spec.settles ? unsettled('not seen for long enough') : unknown('the simulated probe is blind')
      if (this.#world.things.has(ref.id)) return present()
      return absent({ method: 'not in the simulated world', strength: 'api', at: clock.wall() })
    })
    // The engine ignores an answer that comes after the abort, so it counts as not received.
    if (ctx.signal.aborted) return seen
    lastSeen.set(ref.id, seen.is)
    if (seen.is === 'absent') seenAbsent.add(ref.id)
    if (seen.is === 'present') seenAbsent.delete(ref.id)
    return seen
  }

  async release(ref: ThingRef, step: LadderStep): Promise<StepEffect> {
    if (this.#faults.isDead) return await never()
    this.#world.noteRelease(ref)
    return await this.#faults.around('release', () => {
      this.#world.push(ref.id, step)
      return {}
    })
  }

  async gone(ref: ThingRef, ctx: Ctx): Promise<Proof> {
    await this.#faults.around('gone', () => {})
    const aborted = new Promise<void>((_, reject) =>
      ctx.signal.addEventListener('abort', () => reject(new Error('the wait was given up')), { once: true }),
    )
    await Promise.race([this.#world.departure(ref.id), aborted])
    return { method: 'left the simulated world', strength: 'api', at: ctx.clock.wall() }
  }

  async *list(owner: Owner): AsyncIterable<Found<ThingSpec>> {
    await this.#faults.around(this.isRemote ? 'list elsewhere' : 'list', () => {})
    if (!this.#isListed) return
    for (const { kind, id, scopeId, incarnation, spec } of this.#world.list()) {
      if (kind !== this.kind || owner.installation !== 'here') continue
      if (owner.incarnation !== undefined && owner.incarnation !== incarnation) continue
      if (owner.scopeIds && !owner.scopeIds.has(scopeId)) continue
      yield { resourceId: id, incarnation, name: id, spec }
    }
  }

  patienceMs({ spec }: ThingRef): number {
    return spec.patienceMs ?? 0
  }

  givesUpAfterMs({ spec }: ThingRef): number | undefined {
    return spec.givesUpAfterMs
  }

  async tidy(incarnation: string): Promise<void> {
    if (!this.#faults.isDead) this.#world.tidied.push(incarnation)
  }

  obligations(ref: ThingRef, policy: Policy): readonly string[] {
    return this.#world.obligations(ref, policy)
  }

  async meet(obligation: string, ref: ThingRef): Promise<void> {
    await this.#faults.around('meet', () => this.#world.meet(ref.id, obligation))
  }
}
