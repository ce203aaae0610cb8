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

/** The periodic pass that finds what nobody closed. */

/** Fewer than this many unrecorded things are never a sign that it is the ledger that is wrong. */
const breakerFloor = 10

/** So many closes are run again side by side: one that waits for a place that does not answer keeps few others waiting. */
const closedAtOnce = 8

export class Reaper {
  readonly #parts: EngineParts
  #latest: { readonly closeRequest: string; readonly pass: Promise<ReaperPass> } | undefined
  readonly #attempts = new Map<string, { failures: number; dueMs: number }>()

  constructor(parts: EngineParts) {
    this.#parts = parts
  }

  /** Two passes of a sort at once are one pass; a dry run and a real one come one after the other. */
  pass(closeRequest: ReapRequest): Promise<ReaperPass> {
    const latest = this.#latest
    const key = JSON.stringify(closeRequest)
    if (latest?.closeRequest === key) return latest.pass
    const before = latest ? latest.pass.then(noop, noop) : Promise.resolve()
    const pass = before
      .then(() => this.#pass(closeRequest))
      .finally(() => {
        if (this.#latest?.pass === pass) this.#latest = undefined
      })
    this.#latest = { closeRequest: key, pass }
    return pass
  }

  async #pass(closeRequest: ReapRequest): Promise<ReaperPass> {
    const { dryRun } = closeRequest
    const found: Orphan[] = []
    const released: Orphan[] = []
    const left: Orphan[] = []
    const errors: string[] = []
    const settle = (orphan: Orphan, isReleased: boolean): void => void (isReleased ? released : left).push(orphan)

    await this.#deadIncarnations(dryRun, found, settle, errors)
    await this.#unfinished(dryRun, found, settle)
    const breakerOpen = await this.#unrecorded(closeRequest, found, settle, errors)
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
      for (const resource of contents.resources.filter((one) => one.state !== 'released')) {
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
        report.resources.filter((one) => one.outcome === 'released').map((one) => `${one.kind} ${one.name}`),
      ),
    )
    for (const orphan of found) if (orphan.why === 'dead-incarnation') settle(orphan, gone.has(`${orphan.kind} ${orphan.name}`))
  }

  /** Closes that did not finish are run again, with backoff: the same close, the same code. */
  async #unfinished(dryRun: boolean, found: Orphan[], settle: Settle): Promise<void> {
    const { registry, operations, clock } = this.#parts
    // Others may have closed what a pass could not.
    for (const id of [...this.#attempts.keys()]) if (!registry.find(id)) this.#attempts.delete(id)
    const roots = [...registry.scopes()].filter(
      (scope) => scope.state === 'closing' && !operations.has(scope.id) && registry.find(scope.parentId ?? '')?.state !== 'closing',
    )
    const queue = roots.values()
    const work = async (): Promise<void> => {
      // All of them take from the same queue.
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

  /** What carries our mark and is in no ledger: touched only after two sightings and a minimum age. */
  async #unrecorded(closeRequest: ReapRequest, found: Orphan[], settle: Settle, errors: string[]): Promise<boolean> {
    const { host, ledger, clock, log, kinds } = this.#parts
    const { dryRun } = closeRequest
    const listed = await listAll(this.#parts, { installation: host.installation }, undefined)
    errors.push(...listed.failures.map((failure) => `${failure.report.kind}: ${failure.report.error ?? 'the listing failed'}`))
    const recorded = new Set((await ledger.contents(undefined, 'open')).resources.map((one) => one.id))
    const unrecorded = listed.found
      .filter(({ found: one }) => !recorded.has(one.resourceId) && !this.#isLiving(one))
      .sort((a, b) => lastOf(a, kinds) - lastOf(b, kinds) || lastMadeFirst(a, b))
    const breakerOpen = unrecorded.length >= breakerFloor && unrecorded.length * 2 > listed.found.length
    if (breakerOpen)
      log.error(
        `The reaper found ${unrecorded.length} of ${listed.found.length} things unrecorded and touches none of them: the ledger may be the one that is wrong.`,
      )

    const kept = new Set<string>()
    const failed = new Set<string>()
    for (const { kind, found: one } of unrecorded) {
      const detail = `made by incarnation ${one.incarnation}, which is not on the books`
      kept.add(`${kind} ${one.name}`)
      // A dry run changes nothing, so it is no sighting either.
      if (dryRun) {
        const orphan: Orphan = { kind, name: one.name, why: 'unrecorded', detail }
        found.push(orphan)
        settle(orphan, false)
        continue
      }
      const sighting = await ledger.sight(kind, one.name, host.incarnation.bootId, clock.now())
      const seen = `first seen ${Math.round((clock.now() - sighting.firstSeenMs) / 1_000)} s ago`
      const isSpared = closeRequest.sparesRemote === true && kinds.get(kind)?.isRemote === true
      const orphan: Orphan = {
        ...{ kind, name: one.name, why: 'unrecorded', detail: `${detail}; ${seen}` },
        ...(isSpared && { isSpared }),
      }
      found.push(orphan)
      const isRipe = sighting.count >= 2 && clock.now() - sighting.firstSeenMs >= this.#parts.reaper.minimumAgeMs
      // Two kinds may know one resource, such as a log and the process that writes it: its name is taken until the first is gone.
      const isFree = !failed.has(one.resourceId)
      const mayTouch = !isSpared && !breakerOpen && isRipe && isFree && host.vitality(one.incarnation) !== 'unknown'
      const isEnded = mayTouch && (await this.#end(kind, one, errors))
      if (mayTouch && !isEnded) failed.add(one.resourceId)
      settle(orphan, isEnded)
    }
    if (!dryRun) await ledger.forgetSightings(kept)
    return breakerOpen
  }

  /** Another living supervisor's things are its own business; ours are a leak only when their scope is closed. */
  #isLiving(one: Found): boolean {
    const { host, registry } = this.#parts
    if (one.incarnation !== host.incarnationId) return host.vitality(one.incarnation) === 'alive'
    return registry.find(scopeOfResource(one.resourceId))?.entries.get(one.resourceId)?.state !== undefined
  }

  async #end(kind: string, one: Found, errors: string[]): Promise<boolean> {
    const { registry, host, ledger, newId } = this.#parts
    const id = `reaped-${newId()}`
    const scope = { id, kind: 'agent' as const, parentId: `host-${host.incarnationId}`, incarnation: host.incarnationId }
    try {
      await ledger.openScope(scope)
      adopt(this.#parts, registry.add(scope), kind, one)
      const report = await close(this.#parts, id, { trigger: 'reaper' })
      // Its incarnation is on no books, so nobody else takes away what its resources shared.
      if (report.success) await tidy(this.#parts, one.incarnation)
      return report.success
    } catch (error) {
      errors.push(`${kind} ${one.name} could not be ended: ${sentence(error)}`)
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

function lastOf({ kind }: { readonly kind: string }, kinds: Kinds): number {
  return kinds.get(kind)?.goesLast ? 1 : 0
}

/** Nobody knows any more what depended on what, but nothing depends on what was planned after it (G7). */
function lastMadeFirst({ found: a }: { found: Found }, { found: b }: { found: Found }): number {
  return ordinalOfResource(b.resourceId) - ordinalOfResource(a.resourceId)
}

type Settle = (orphan: Orphan, isReleased: boolean) => void
