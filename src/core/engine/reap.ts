import { sentence } from '../model/errors.ts'
import { ordinalOfResource, scopeOfResource } from '../model/identity.ts'
import type { Report } from '../model/report.ts'
import type { Found, Kinds } from '../ports/kind.ts'
import type { Orphan, ReaperPass, ReapRequest } from './api.ts'
import { close } from './close.ts'
import { type EngineParts, tidy } from './parts.ts'
import { noop } from './race.ts'
import { recover } from './recover.ts'
import type { OwnedScope } from './scope-registry.ts'
import { adopt, listAll } from './sweep.ts'

/** The reaper: a periodic pass over dead supervisors, closes that did not finish, and resources that are in no ledger. */

/** At least this many resources must be in no ledger before that is a sign that the ledger itself is wrong. */
const breakerFloor = 10

/** How many closes the reaper runs at the same time, so that one that waits for an unreachable service does not delay all others. */
const closedAtOnce = 8

export class Reaper {
  readonly #parts: EngineParts
  #latest: { readonly key: string; readonly pass: Promise<ReaperPass> } | undefined
  readonly #attempts = new Map<string, { failures: number; dueMs: number }>()

  constructor(parts: EngineParts) {
    this.#parts = parts
  }

  /** Calls with the same request that overlap share one pass. A dry run and a real pass run one after the other. */
  pass(request: ReapRequest): Promise<ReaperPass> {
    const latest = this.#latest
    const key = JSON.stringify(request)
    if (latest?.key === key) return latest.pass
    // An error of the earlier pass goes to the caller of that pass only.
    const before = latest ? latest.pass.then(noop, noop) : Promise.resolve()
    const pass = before
      .then(() => this.#pass(request))
      .finally(() => {
        if (this.#latest?.pass === pass) this.#latest = undefined
      })
    this.#latest = { key, pass }
    return pass
  }

  async #pass(request: ReapRequest): Promise<ReaperPass> {
    const { dryRun } = request
    const found: Orphan[] = []
    const released: Orphan[] = []
    const left: Orphan[] = []
    const errors: string[] = []
    const settle = (orphan: Orphan, isReleased: boolean): void => void (isReleased ? released : left).push(orphan)

    await this.#deadIncarnations(dryRun, found, settle, errors)
    await this.#unfinished(dryRun, found, settle)
    const breakerOpen = await this.#unrecorded(request, found, settle, errors)
    if (!dryRun) for (const { kind } of found) this.#parts.events.emit('orphan', kind)
    return { found, released, left, errors, breakerOpen }
  }

  async #deadIncarnations(dryRun: boolean, found: Orphan[], settle: Settle, errors: string[]): Promise<void> {
    const { ledger, host } = this.#parts
    for (const record of await ledger.incarnations()) {
      if (record.id === host.incarnationId || record.installation !== host.installation) continue
      const vitality = host.vitality(record.id)
      if (vitality === 'alive') continue
      const why = vitality === 'dead' ? 'dead-incarnation' : 'unknown-incarnation'
      const contents = await ledger.contents(record.id, 'open')
      for (const resource of contents.resources.filter(({ state }) => state !== 'released')) {
        const orphan: Orphan = { kind: resource.kind, name: resource.name, why, detail: `supervisor ${record.identity.pid} is ${vitality}` }
        found.push(orphan)
        if (dryRun || vitality === 'unknown') settle(orphan, false)
      }
    }
    if (dryRun) return
    const recovery = await recover(this.#parts)
    errors.push(...recovery.errors)
    const gone = new Set(
      recovery.reports.flatMap((report) =>
        report.resources.filter(({ outcome }) => outcome === 'released').map(({ kind, name }) => `${kind} ${name}`),
      ),
    )
    for (const orphan of found) if (orphan.why === 'dead-incarnation') settle(orphan, gone.has(`${orphan.kind} ${orphan.name}`))
  }

  /** Runs closes again that did not finish, with backoff. */
  async #unfinished(dryRun: boolean, found: Orphan[], settle: Settle): Promise<void> {
    const { registry, operations, clock } = this.#parts
    // Scopes that were closed by other calls need no backoff any more.
    for (const id of [...this.#attempts.keys()]) if (!registry.find(id)) this.#attempts.delete(id)
    const roots = [...registry.scopes()].filter(
      (scope) => scope.state === 'closing' && !operations.has(scope.id) && registry.find(scope.parentId ?? '')?.state !== 'closing',
    )
    const queue = roots.values()
    const work = async (): Promise<void> => {
      // All workers take scopes from the same queue.
      for (const scope of queue) {
        const orphans = heldBackIn(registry.tree(scope.id))
        found.push(...orphans)
        const due = this.#attempts.get(scope.id)
        const isDue = !due || due.dueMs <= clock.now()
        const report: Report | undefined = dryRun || !isDue ? undefined : await close(this.#parts, scope.id, { trigger: 'reaper' })
        for (const orphan of orphans) settle(orphan, report?.success === true)
        if (report?.success) this.#attempts.delete(scope.id)
        else if (report) this.#backOff(scope.id)
      }
    }
    await Promise.all(Array.from({ length: closedAtOnce }, work))
  }

  #backOff(scopeId: string): void {
    const failures = (this.#attempts.get(scopeId)?.failures ?? 0) + 1
    const waitMs = Math.min(this.#parts.reaper.intervalMs * 2 ** Math.min(failures, 6), 3_600_000)
    this.#attempts.set(scopeId, { failures, dueMs: this.#parts.clock.now() + waitMs })
  }

  /**
   * Ends resources that carry the mark of this installation and are in no ledger. They are ended only after two sightings and a minimum
   * age.
   */
  async #unrecorded(request: ReapRequest, found: Orphan[], settle: Settle, errors: string[]): Promise<boolean> {
    const { host, ledger, clock, log, kinds } = this.#parts
    const { dryRun } = request
    const listed = await listAll(this.#parts, { installation: host.installation }, undefined)
    errors.push(...listed.failures.map((failure) => `${failure.report.kind}: ${failure.report.error ?? 'the listing failed'}`))
    const recorded = new Set((await ledger.contents(undefined, 'open')).resources.map(({ id }) => id))
    const unrecorded = listed.found
      .filter(({ found: thing }) => !recorded.has(thing.resourceId) && !this.#isLiving(thing))
      .sort((a, b) => lastRank(a, kinds) - lastRank(b, kinds) || lastMadeFirst(a, b))
    const breakerOpen = unrecorded.length >= breakerFloor && unrecorded.length * 2 > listed.found.length
    if (breakerOpen)
      log.error(
        `The reaper found that ${unrecorded.length} of ${listed.found.length} things are not in the ledger, and touches none of them: the ledger itself may be wrong. Check the database of this home.`,
      )

    const kept = new Set<string>()
    const failed = new Set<string>()
    for (const { kind, found: thing } of unrecorded) {
      const detail = `created by incarnation ${thing.incarnation}, and not in the ledger`
      kept.add(`${kind} ${thing.name}`)
      // A dry run changes nothing, so it does not count as a sighting.
      if (dryRun) {
        const orphan: Orphan = { kind, name: thing.name, why: 'unrecorded', detail }
        found.push(orphan)
        settle(orphan, false)
        continue
      }
      const sighting = await ledger.sight(kind, thing.name, host.incarnation.bootId, clock.now())
      const seen = `first seen ${Math.round((clock.now() - sighting.firstSeenMs) / 1_000)} s ago`
      const isSpared = request.sparesRemote === true && kinds.get(kind)?.isRemote === true
      const orphan: Orphan = {
        ...{ kind, name: thing.name, why: 'unrecorded', detail: `${detail}; ${seen}` },
        ...(isSpared && { isSpared }),
      }
      found.push(orphan)
      const isConfirmed = sighting.count >= 2 && clock.now() - sighting.firstSeenMs >= this.#parts.reaper.minimumAgeMs
      // Two kinds may list the same resource id, such as a log and the process that writes it. The second is skipped while the first is
      // still there.
      const isFree = !failed.has(thing.resourceId)
      const mayEnd = !isSpared && !breakerOpen && isConfirmed && isFree && host.vitality(thing.incarnation) !== 'unknown'
      const isEnded = mayEnd && (await this.#end(kind, thing, errors))
      if (mayEnd && !isEnded) failed.add(thing.resourceId)
      settle(orphan, isEnded)
    }
    if (!dryRun) await ledger.forgetSightings(kept)
    return breakerOpen
  }

  /** True when the resource belongs to another supervisor that is alive, or to this process and is in the registry. */
  #isLiving({ incarnation, resourceId }: Found): boolean {
    const { host, registry } = this.#parts
    if (incarnation !== host.incarnationId) return host.vitality(incarnation) === 'alive'
    return registry.find(scopeOfResource(resourceId))?.entries.get(resourceId)?.state !== undefined
  }

  async #end(kind: string, thing: Found, errors: string[]): Promise<boolean> {
    const { registry, host, ledger, newId } = this.#parts
    const id = `reaped-${newId()}`
    const scope = { id, kind: 'agent' as const, parentId: `host-${host.incarnationId}`, incarnation: host.incarnationId }
    try {
      await ledger.open({ scopes: [scope] })
      adopt(this.#parts, registry.add(scope, { isRecorded: true }), kind, thing)
      const report = await close(this.#parts, id, { trigger: 'reaper' })
      // No recovery removes what the resources of this incarnation shared, because the incarnation is in no ledger.
      if (report.success) await tidy(this.#parts, thing.incarnation)
      return report.success
    } catch (error) {
      errors.push(`${kind} ${thing.name} could not be ended: ${sentence(error)}`)
      return false
    }
  }
}

function heldBackIn(tree: readonly OwnedScope[]): readonly Orphan[] {
  return tree
    .flatMap((member) => [...member.entries.values()])
    .filter((entry) => entry.state !== 'released')
    .map((entry) => ({
      kind: entry.intent.kind,
      name: entry.name,
      why: 'held-back',
      detail: entry.error ?? 'its close did not finish',
    }))
}

function lastRank({ kind }: { readonly kind: string }, kinds: Kinds): number {
  return kinds.get(kind)?.goesLast ? 1 : 0
}

/**
 * Sorts unrecorded resources in the reverse order of their plan. Their dependencies are unknown, but a resource depends only on resources
 * planned before it, so this order is safe (G7).
 */
function lastMadeFirst({ found: a }: { found: Found }, { found: b }: { found: Found }): number {
  return ordinalOfResource(b.resourceId) - ordinalOfResource(a.resourceId)
}

type Settle = (orphan: Orphan, isReleased: boolean) => void
