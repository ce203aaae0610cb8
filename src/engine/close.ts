import { sentence } from '../domain/errors.ts'
import { waves } from '../domain/plan.ts'
import { dropsLogs, forgets } from '../domain/policy.ts'
import { isClean, type Report, type ResourceReport } from '../domain/report.ts'
import { renew, type ScopeKind, type Wish } from '../domain/scope.ts'
import type { EndedScope } from '../ports/endings.ts'
import type { Outcome } from '../ports/ledger.ts'
import type { BookScope, Entry } from './book.ts'
import type { EngineParts } from './engine.ts'
import { Flight } from './flight.ts'
import { noop, within } from './race.ts'
import { type Released, release } from './release.ts'
import { sweep } from './sweep.ts'

/** Every flow is this one call: plan, waves, ladder, obligations, proof, sweep, report. */

/** How long the books may take after the world is clean before a close answers without them (G12). */
const settleBudgetMs = 2_000

/** A creation that does not come back after its scope was told to close is reported, not waited for without end. */
const creationBudgetMs = 10_000

export interface CloseOptions {
  /** Part of something larger, whose report will be the one that is kept and told. */
  readonly isPart?: boolean
  /** How its report calls a scope that has left the book. */
  readonly name?: Report['scope']
}

export function close(parts: EngineParts, scopeId: string, wish: Wish, options: CloseOptions = {}): Promise<Report> {
  const running = parts.flights.get(scopeId)
  if (running) {
    if (running.join(wish)) {
      parts.ledger.beginClose(scopeId, running.wish).catch(noop)
      for (const member of parts.book.tree(scopeId)) {
        member.wish = renew(member.wish, running.wish)
        if (member.id !== scopeId) parts.flights.get(member.id)?.join(wish)
      }
    }
    return running.report
  }
  const scope = parts.book.find(scopeId)
  if (!scope) return Promise.resolve(alreadyClean(parts, scopeId, wish, options.name))
  return start(parts, scope, wish, options.isPart ? 'part' : 'root')
}

/** Where a close stands: asked for by itself, as part of something larger, or because of the scope above. */
type Place = 'root' | 'part' | 'below'

function start(parts: EngineParts, scope: BookScope, wish: Wish, place: Place): Promise<Report> {
  const flight = new Flight(parts.clock, renew(scope.wish, wish), parts.newId())
  parts.flights.set(scope.id, flight)
  // In memory first, and at once: from here on the scope takes nothing in, whatever the database does (G12, G13).
  for (const member of parts.book.tree(scope.id)) {
    if (member.state === 'open') member.state = 'closing'
    // A scope below may have been asked for more than the one above it, by a close of its own that did not finish.
    member.wish = renew(member.wish, flight.wish)
    member.closing.abort()
  }
  const marked =
    place !== 'below'
      ? scope.recorded
          .catch(noop)
          .then(() => parts.ledger.beginClose(scope.id, flight.wish))
          .catch(
            (error: unknown) =>
              void parts.log.warn(`Cleanup: the ledger does not know yet that ${scope.id} is closing.`, {
                trigger: flight.wish.trigger,
                scope: scope.id,
                error: sentence(error),
              }),
          )
      : Promise.resolve()
  flight.report = fly(parts, scope, flight, place)
    .finally(() => parts.flights.delete(scope.id))
    .then(async (report) => {
      await within(parts.clock, settleBudgetMs, marked)
      return report
    })
  return flight.report
}

async function fly(parts: EngineParts, scope: BookScope, flight: Flight, place: Place): Promise<Report> {
  const below = await Promise.all([...scope.children].map((id) => closeChild(parts, id, flight)))
  const creations = await within(parts.clock, Math.min(creationBudgetMs, flight.remainingMs()), Promise.allSettled(scope.creations))
  const errors = creations.timedOut ? [`A creation in scope ${scope.id} did not come back in time.`] : []

  const released = await releaseAll(parts, scope, flight)
  const swept = place === 'below' ? [] : await sweep(parts, scope, flight)
  released.push(...swept)

  const resources = [...below.flatMap((report) => report.resources), ...released.map((one) => one.report)]
  const success = isClean(resources) && errors.length === 0 && below.every((child) => child.success)
  const report: Report = {
    success,
    trigger: flight.wish.trigger,
    scope: { kind: scope.kind, id: scope.label ?? scope.id },
    startedAt: flight.startedAt,
    duration: Math.round((parts.clock.now() - flight.startedMs) * 10) / 10,
    cleanedAgentsCount: below.reduce((sum, child) => sum + child.cleanedAgentsCount, scope.kind === 'agent' && success ? 1 : 0),
    cleanedMessagesCount: below.reduce((sum, child) => sum + child.cleanedMessagesCount, 0),
    resources,
    errors: [
      ...errors,
      ...below.flatMap((child) => child.errors),
      ...released.flatMap((one) => (one.report.error ? [describeError(one.report)] : [])),
    ],
    gaveUp: [...below.flatMap((child) => child.gaveUp), ...released.flatMap((one) => one.gaveUp)],
  }
  scope.report = report
  return place === 'below' ? report : await finish(parts, scope, flight, { place, isSwept: isClean(swept.map((one) => one.report)) })
}

/** A child that is already closing is joined; its own flight does the work, once (G6). */
function closeChild(parts: EngineParts, id: string, flight: Flight): Promise<Report> {
  const running = parts.flights.get(id)
  if (running) {
    running.join(flight.wish)
    return running.report
  }
  const child = parts.book.find(id)
  return child ? start(parts, child, flight.wish, 'below') : Promise.resolve(alreadyClean(parts, id, flight.wish))
}

/** Waves in reverse order of dependency; what something stuck depends on waits with it (G7). */
export async function releaseAll(parts: EngineParts, scope: BookScope, flight: Flight): Promise<Released[]> {
  const open = [...scope.entries.values()].filter((entry) => entry.state !== 'released')
  const planned = waves(open.map((entry) => ({ id: entry.intent.id, dependsOn: entry.intent.dependsOn, entry })))
  const blocked = new Set(parts.book.tree(scope.id).slice(1).flatMap(neededBelow))
  const results: Released[] = []
  for (const wave of planned) {
    const done = await Promise.all(
      wave.map(async ({ entry }) => {
        const result = blocked.has(entry.intent.id) ? heldBack(entry) : await release({ entry, flight, clock: parts.clock })
        if (entry.state !== 'released') for (const id of entry.intent.dependsOn) blocked.add(id)
        logRelease(parts, scope, flight, result.report)
        return result
      }),
    )
    results.push(...done)
  }
  return results
}

/** What the things that are still there in a scope below depend on. */
function neededBelow(scope: BookScope): readonly string[] {
  return [...scope.entries.values()].flatMap((entry) => (entry.state === 'released' ? [] : entry.intent.dependsOn))
}

function heldBack(entry: Entry): Released {
  const error = 'Waits for what depends on it.'
  entry.error = error
  return { report: { kind: entry.intent.kind, name: entry.name, outcome: 'held-back', steps: [], error }, gaveUp: [] }
}

interface Finish {
  readonly place: Place
  /** Did the sweep leave nothing? */
  readonly isSwept: boolean
}

/** The world is done; now the books. A ledger that cannot be written changes the report, never the kill (G12). */
async function finish(parts: EngineParts, scope: BookScope, flight: Flight, at: Finish): Promise<Report> {
  const cleared = await clear(parts, scope, flight, at.isSwept)
  const outcome = await within(parts.clock, settleBudgetMs, settle(parts, scope, cleared, at.place === 'root' && flight.id).catch(sentence))
  const result = outcome.timedOut ? 'the database did not answer in time' : outcome.value
  // With books that are behind it stays in ours, and the reaper, or the next close, settles it again.
  const error = typeof result === 'string' ? result : undefined
  const report = typeof result === 'string' ? reportOf(scope) : result
  const final =
    error === undefined
      ? report
      : {
          ...report,
          errors: [...report.errors, `The ledger could not be written (${error}); the reaper, or the next start, puts the books right.`],
        }
  const fields = { trigger: report.trigger, scope: scope.id, duration: report.duration }
  if (!report.success) parts.log.error(`Cleanup: scope ${scope.id} is not clean: ${report.errors.join('; ')}`, fields)
  else if (error !== undefined) parts.log.warn(`Cleanup: scope ${scope.id} is clean, but ${error}`, fields)
  else parts.log.info(`Cleanup: scope ${scope.id} is clean.`, fields)
  if (at.place === 'root') parts.onReport(final, namespaceOf(parts, scope))
  return final
}

/** The name of the namespace that a scope lies in; a host lies in none. */
export function namespaceOf(parts: EngineParts, scope: BookScope): string | undefined {
  if (scope.kind === 'namespace') return scope.label
  const parent = scope.parentId === undefined ? undefined : parts.book.find(scope.parentId)
  return parent && namespaceOf(parts, parent)
}

interface Cleared {
  /** What is clean is closed, also when its neighbour is not. */
  readonly ended: readonly EndedScope[]
  /** Of which something is left that is no resource, such as an archive. */
  readonly spoilt: ReadonlySet<string>
  readonly messagesGone: number
}

/** What has to go before the records do. Not in the books' time: a million messages take a while, and that is no locked database. */
async function clear(parts: EngineParts, scope: BookScope, flight: Flight, isSwept: boolean): Promise<Cleared> {
  // What the sweep found may be anybody's.
  const clean = isSwept ? parts.book.tree(scope.id).filter((member) => member.report?.success) : []
  const ended = clean.map(
    (member): EndedScope => ({
      id: member.id,
      kind: member.kind,
      report: reportOf(member),
      isForgotten: forgets(member.wish ?? flight.wish),
      dropsLogs: dropsLogs(member.wish ?? flight.wish),
    }),
  )
  const { left, messagesGone } = await parts.endings.clear(ended)
  for (const [id, problem] of left) spoil(parts, scope, id, problem)
  return { ended: ended.filter(({ id }) => parts.book.find(id)?.report?.success), spoilt: new Set(left.keys()), messagesGone }
}

/** Something of a scope is left after all: it is not clean, and none above it is. */
function spoil(parts: EngineParts, top: BookScope, id: string, problem: string): void {
  for (let scope = parts.book.find(id); scope; scope = scope === top ? undefined : parts.book.find(scope.parentId ?? '')) {
    const { errors, cleanedAgentsCount, ...report } = reportOf(scope)
    scope.report = { ...report, success: false, cleanedAgentsCount: cleanedAgentsCount - 1, errors: [...errors, problem] }
  }
}

/** One transaction: what became of every resource, which scopes are closed, how their agents ended, and the report. */
async function settle(parts: EngineParts, scope: BookScope, cleared: Cleared, reportId: string | false): Promise<Report> {
  const { ended, spoilt, messagesGone } = cleared
  const tree = parts.book.tree(scope.id)
  // A scope that is still on its way into the ledger must not arrive there after its end.
  await Promise.allSettled(tree.map((member) => member.recorded))
  const closedIds = new Set(ended.map(({ id }) => id))
  const left = tree
    .filter((member) => member.kind === 'agent' && !closedIds.has(member.id))
    .map((member) => ({ id: member.id, report: reportOf(member), isStuck: spoilt.has(member.id) || hasStuck(member) }))
  const agents = await parts.endings.prepare(ended)
  const messages = reportOf(scope).cleanedMessagesCount + messagesGone + agents.messagesGoing
  const report = { ...reportOf(scope), cleanedMessagesCount: messages }
  await parts.ledger.settle({
    outcomes: outcomesOf(tree),
    closedScopeIds: [...closedIds],
    forgottenScopeIds: ended.filter(({ isForgotten }) => isForgotten).map(({ id }) => id),
    agents: { ended: agents.ended, stuckIds: left.filter(({ isStuck }) => isStuck).map(({ id }) => id) },
    ...(reportId !== false && { report: { id: reportId, body: report } }),
  })
  for (const member of tree.filter(({ id }) => closedIds.has(id))) {
    member.state = 'closed'
    parts.book.forget(member.id)
  }
  parts.endings.settled(ended, agents.ended, left)
  return report
}

function reportOf(scope: BookScope): Report {
  if (!scope.report) throw new Error(`Scope ${scope.id} was settled before it was closed.`)
  return scope.report
}

function hasStuck(scope: BookScope): boolean {
  return [...scope.entries.values()].some((entry) => entry.state === 'stuck')
}

function outcomesOf(tree: readonly BookScope[]): readonly Outcome[] {
  return tree
    .flatMap((scope) => [...scope.entries.values()])
    .map((entry) => ({
      resourceId: entry.intent.id,
      state: entry.state === 'released' || entry.state === 'stuck' ? entry.state : 'closing',
      attempts: entry.attempts,
      ...(entry.proof && { proof: entry.proof }),
      ...(entry.error !== undefined && { error: entry.error }),
    }))
}

/** Of a scope that the book does not have. Who asks for one that may be somebody else's has to find that out before. */
export function alreadyClean(parts: EngineParts, scopeId: string, wish: Wish, name?: Report['scope']): Report {
  parts.log.info(`Cleanup: scope ${scopeId} was already clean.`, { trigger: wish.trigger, scope: scopeId })
  return {
    success: true,
    trigger: wish.trigger,
    scope: name ?? { kind: kindOf(scopeId), id: scopeId },
    startedAt: parts.clock.wall(),
    duration: 0,
    cleanedAgentsCount: 0,
    cleanedMessagesCount: 0,
    resources: [],
    errors: [],
    gaveUp: [],
  }
}

/** Scopes of agents have bare ids. */
function kindOf(scopeId: string): ScopeKind {
  return (['host', 'namespace', 'request', 'task'] as const).find((kind) => scopeId.startsWith(`${kind}-`)) ?? 'agent'
}

function describeError(report: ResourceReport): string {
  return `${report.kind} ${report.name}: ${report.error ?? report.outcome}`
}

function logRelease(parts: EngineParts, scope: BookScope, flight: Flight, report: ResourceReport): void {
  const fields = { trigger: flight.wish.trigger, scope: scope.id, resource: report.name, kind: report.kind }
  if (report.outcome === 'released') parts.log.info(`Cleanup: released ${report.kind} ${report.name}.`, fields)
  else if (report.outcome === 'stuck') parts.log.error(`Cleanup: ${describeError(report)}`, fields)
  else parts.log.warn(`Cleanup: ${report.outcome} ${describeError(report)}`, fields)
}
