import { sentence } from '../model/errors.ts'
import { scopeOfResource } from '../model/identity.ts'
import { dropsLogs, forgets, renew, type Wish, withoutHurry } from '../model/policy.ts'
import { isClean, type Report } from '../model/report.ts'
import type { ScopeKind } from '../model/scope.ts'
import type { EndedScope } from '../ports/endings.ts'
import type { Outcome } from '../ports/ledger.ts'
import type { CloseOptions } from './api.ts'
import { type BookScope, closingState } from './book.ts'
import { Flight } from './flight.ts'
import type { EngineParts } from './parts.ts'
import { Progress } from './progress.ts'
import { noop, within } from './race.ts'
import { recordedInTime, unrecorded } from './release.ts'
import { sweep } from './sweep.ts'
import { describeError, releaseAll } from './waves.ts'

/** Every flow is this one call: plan, waves, ladder, obligations, proof, sweep, report. */

/** How long the books may take after the world is clean before a close answers without them (G12). */
const settleBudgetMs = 2_000

/** What outlives a supervisor is asked to go once the ledger knows that we want it to, or after so long: a kill needs no ledger (G12). */
const knownBudgetMs = 100

/** A creation that does not come back after its scope was told to close is reported, not waited for without end. */
const creationBudgetMs = 10_000

export function close(parts: EngineParts, scopeId: string, wish: Wish, options: CloseOptions = {}): Promise<Report> {
  const running = parts.flights.get(scopeId)
  if (running) {
    if (running.join(wish)) {
      record(parts, scopeId, running).catch(noop)
      for (const member of parts.book.tree(scopeId)) {
        member.wish = renew(member.wish, running.wish)
        if (member.id !== scopeId) joinBelow(parts.flights.get(member.id), wish, running)
      }
    }
    options.partOf?.include(running.progress)
    return running.report
  }
  const scope = parts.book.find(scopeId)
  if (!scope) return Promise.resolve(alreadyClean(parts, scopeId, wish, options.name))
  return start(parts, scope, wish, options.isPart || options.partOf ? 'part' : 'root', { progress: options.partOf })
}

/** Stores the request of a close in the ledger: of its scope, which may itself be on its way into the ledger, and of all below. */
function record(parts: EngineParts, scopeId: string, flight: Flight): Promise<void> {
  const { wish } = flight
  const known = parts.book.find(scopeId)?.recorded ?? Promise.resolve()
  // What is dropped does not come back after a power cut, so its request must survive one. A launch that fails owes nobody a log.
  const isDropping =
    dropsLogs(wish) && wish.trigger !== 'launch-rollback' && parts.book.tree(scopeId).some((one) => mayHaveLogs(parts, one))
  const recorded = known.catch(noop).then(() => parts.ledger.beginClose(scopeId, wish, isDropping ? 'power-cut' : 'crash'))
  flight.recordedBy(recorded)
  return recorded
}

/** A scope of this supervisor that owes nothing for a resource has neither logs nor an archive; of another's scope nobody here knows. */
function mayHaveLogs(parts: EngineParts, scope: BookScope): boolean {
  return scope.incarnation !== parts.host.incarnationId || [...scope.entries.values()].some(({ kind }) => kind.obligations !== undefined)
}

/** The request of a scope above reaches a close that runs below it. */
function joinBelow(running: Flight | undefined, wish: Wish, above: Flight): void {
  if (running?.join(wish)) running.recordedWith(above)
}

/** Where a close stands: asked for by itself, as part of something larger, or because of the scope above. */
type Place = 'root' | 'part' | 'below'

/** What a close belongs to. */
interface Above {
  readonly progress: Progress | undefined
  /** The close of the scope above, whose record in the ledger includes the scopes below. */
  readonly flight?: Flight
}

function start(parts: EngineParts, scope: BookScope, wish: Wish, place: Place, above: Above): Promise<Report> {
  const flight = new Flight(parts.clock, renew(withoutHurry(scope.wish), wish), parts.newId())
  parts.flights.set(scope.id, flight)
  flight.progress = progressOf(parts, scope, flight, place)
  above.progress?.include(flight.progress)
  // In memory first, and at once: from here on the scope takes nothing in, whatever the database does (G12, G13).
  for (const member of parts.book.tree(scope.id)) {
    if (member.state === 'open') member.state = 'closing'
    // A scope below may have been asked for more than the one above it, by a close of its own that did not finish.
    member.wish = renew(member.wish, flight.wish)
    member.closing.abort()
  }
  const isInRecordAbove = above.flight && dropsLogs(above.flight.wish) === dropsLogs(flight.wish)
  if (isInRecordAbove) flight.recordedWith(above.flight)
  const marked = isInRecordAbove
    ? Promise.resolve()
    : record(parts, scope.id, flight).catch(
        (error: unknown) =>
          void parts.log.warn(`Cleanup: the ledger does not know yet that ${scope.id} is closing.`, {
            trigger: flight.wish.trigger,
            ...parts.book.placeOf(scope),
            error: sentence(error),
          }),
      )
  const isKnown = outlivesUs(parts, scope) ? within(parts.clock, knownBudgetMs, marked) : undefined
  const flown = isKnown ? isKnown.then(() => fly(parts, scope, flight, place)) : fly(parts, scope, flight, place)
  flight.report = flown
    .finally(() => {
      parts.flights.delete(scope.id)
      flight.progress.end()
    })
    .then(async (report) => {
      await within(parts.clock, settleBudgetMs, marked)
      return report
    })
  return flight.report
}

/** Killed between our signal and our record of it, we would leave it to a successor that takes its end for its own doing (G6). */
function outlivesUs({ book }: EngineParts, scope: BookScope): boolean {
  const isKept = ({ entries }: BookScope): boolean =>
    [...entries.values()].some(({ intent, state }) => intent.onLoss === 'keep' && state !== 'released')
  return book.tree(scope.id).some(isKept)
}

/** From its first moment it is known what waits. */
function progressOf(parts: EngineParts, scope: BookScope, { id, wish, startedAt, startedMs }: Flight, place: Place): Progress {
  const named = { kind: scope.kind, id: scope.label ?? scope.id }
  const namespace = parts.book.namespaceOf(scope)
  const about = { id, trigger: wish.trigger, scope: named, startedAt, startedMs, ...(namespace !== undefined && { namespace }) }
  const progress = place === 'root' ? new Progress(parts.events.progress, about) : new Progress()
  for (const entry of scope.entries.values())
    if (entry.state !== 'released') progress.track(entry, { scope: named, namespace }, parts.clock)
  return progress
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
    joinBelow(running, flight.wish, flight)
    flight.progress.include(running.progress)
    return running.report
  }
  const child = parts.book.find(id)
  return child
    ? start(parts, child, flight.wish, 'below', { progress: flight.progress, flight })
    : Promise.resolve(alreadyClean(parts, id, flight.wish))
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
  const fields = { trigger: report.trigger, ...parts.book.placeOf(scope), duration: report.duration }
  const what = scope.kind === 'request' || scope.kind === 'task' ? `${scope.kind} ${scope.label ?? scope.id}` : `scope ${scope.id}`
  if (!report.success) parts.log.error(`Cleanup: ${what} is not clean: ${report.errors.join('; ')}`, fields)
  else if (error !== undefined) parts.log.warn(`Cleanup: ${what} is clean, but ${error}`, fields)
  else parts.log.info(`Cleanup: ${what} is clean.`, fields)
  flight.progress.end()
  if (at.place === 'root') parts.events.emit('report', final, parts.book.namespaceOf(scope), flight.id)
  return final
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
  const unrecordedIds = await idsWithoutRecord(parts, ended, flight)
  const { left, messagesGone } = await parts.endings.clear(ended.filter(({ id }) => !unrecordedIds.has(id)))
  const problems = new Map([...left, ...[...unrecordedIds].map((id) => [id, `archive of agent ${id}: ${unrecorded}`] as const)])
  for (const [id, problem] of problems) spoil(parts, scope, id, problem)
  return { ended: ended.filter(({ id }) => parts.book.find(id)?.report?.success), spoilt: new Set(problems.keys()), messagesGone }
}

/**
 * The agents whose archive is to go and may not go yet: until the ledger has recorded the request, a crash would leave the agent on
 * record without its archive (G8). Others do not wait for the ledger.
 */
async function idsWithoutRecord(parts: EngineParts, ended: readonly EndedScope[], flight: Flight): Promise<ReadonlySet<string>> {
  const ids = ended
    .filter(({ kind, dropsLogs: isDropped }) => kind === 'agent' && isDropped)
    .flatMap(({ id }) => parts.book.find(id) ?? [])
    .filter((scope) => mayHaveLogs(parts, scope))
    .map(({ id }) => id)
  if (ids.length === 0 || (await recordedInTime(parts.clock, flight, settleBudgetMs))) return new Set()
  return new Set(ids)
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
  const stuck = scopesOfStuck(tree)
  const left = tree
    .filter((member) => member.kind === 'agent' && !closedIds.has(member.id))
    .map((member) => ({ id: member.id, report: reportOf(member), isStuck: spoilt.has(member.id) || stuck.has(member.id) }))
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

/** Also of what the sweep of a scope above has adopted. */
function scopesOfStuck(tree: readonly BookScope[]): ReadonlySet<string> {
  const stuck = tree.flatMap(({ entries }) => [...entries.values()].filter(({ state }) => state === 'stuck'))
  return new Set(stuck.flatMap(({ intent }) => [intent.scopeId, scopeOfResource(intent.id)]))
}

function outcomesOf(tree: readonly BookScope[]): readonly Outcome[] {
  return tree
    .flatMap((scope) => [...scope.entries.values()])
    .map((entry) => ({
      resourceId: entry.intent.id,
      state: closingState(entry),
      attempts: entry.attempts,
      ...(entry.proof && { proof: entry.proof }),
      ...(entry.error !== undefined && { error: entry.error }),
      ...(entry.owedSince !== undefined && { owedSince: entry.owedSince }),
    }))
}

/** Of a scope that the book does not have. Who asks for one that may be somebody else's has to find that out before. */
export function alreadyClean(parts: EngineParts, scopeId: string, wish: Wish, name?: Report['scope']): Report {
  const what = name ? `${name.kind} ${name.id}` : `scope ${scopeId}`
  const called = name?.kind === 'request' || name?.kind === 'task' ? { [name.kind]: name.id } : {}
  parts.log.info(`Cleanup: ${what} was already clean.`, { trigger: wish.trigger, scope: scopeId, ...called })
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
