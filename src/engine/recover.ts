import { sentence } from '../domain/errors.ts'
import type { Report } from '../domain/report.ts'
import type { Scope, Wish } from '../domain/scope.ts'
import type { IncarnationRecord } from '../ports/ledger.ts'
import { alreadyClean, close } from './close.ts'
import { type EngineParts, tidy } from './engine.ts'
import { type Adopter, keptAgents, spared } from './keep.ts'
import { backoffMs, noop, pause } from './race.ts'

export interface Recovery {
  readonly reports: readonly Report[]
  /** Incarnations whose life or death cannot be told from here; left alone (G4). */
  readonly unknown: readonly string[]
  readonly errors: readonly string[]
}

/**
 * Finishes what dead supervisors of this installation left. Touches only incarnations that are proven dead, each
 * claimed by compare-and-set, so that two recoveries never work on the same one. Safe at any time; two at once in one
 * process are one.
 */
export function recover(parts: EngineParts): Promise<Recovery> {
  parts.running.recovery ??= recoverAll(parts).finally(() => {
    delete parts.running.recovery
  })
  return parts.running.recovery
}

/** Also waits for what another process is recovering just now, such as a sentinel's, and takes what that one left: afterwards the books are right. */
export async function recoverPatiently(parts: EngineParts, budgetMs: number): Promise<Recovery> {
  const untilMs = parts.clock.now() + budgetMs
  const recovery = await recover(parts)
  let hasWaited = false
  for (let attempt = 1; parts.clock.now() < untilMs && (await isBeingRecovered(parts)); attempt++) {
    hasWaited = true
    await pause(parts.clock, backoffMs(attempt, 100), new Promise(noop))
  }
  return hasWaited ? together(recovery, await recover(parts)) : recovery
}

function together(first: Recovery, second: Recovery): Recovery {
  return { reports: [...first.reports, ...second.reports], unknown: second.unknown, errors: [...first.errors, ...second.errors] }
}

async function isBeingRecovered(parts: EngineParts): Promise<boolean> {
  const { host, ledger } = parts
  return (await ledger.incarnations()).some(
    ({ id, claimedBy }) =>
      claimedBy !== undefined && host.vitality(id) === 'dead' && host.vitality(claimedBy) === 'alive' && claimedBy !== host.incarnationId,
  )
}

async function recoverAll(parts: EngineParts): Promise<Recovery> {
  const reports: Report[] = []
  const unknown: string[] = []
  const errors: string[] = []
  for (const record of await parts.ledger.incarnations()) {
    if (record.id === parts.host.incarnationId || record.installation !== parts.host.installation) continue
    const vitality = parts.host.vitality(record.id)
    if (vitality === 'unknown') unknown.push(record.id)
    if (vitality !== 'dead' || !mayClaim(parts, record)) continue
    try {
      if (!(await parts.ledger.claim(record.id, parts.host.incarnationId, record.claimedBy))) continue
      reports.push(...(await recoverOne(parts, record)))
    } catch (error) {
      errors.push(`Incarnation ${record.id} could not be recovered: ${sentence(error)}`)
    }
  }
  await endLost(parts).catch((error: unknown) => errors.push(`Agents of lost supervisors could not be ended: ${sentence(error)}`))
  return { reports, unknown, errors }
}

/** Its row was written, and its scope was refused or never asked for, when the supervisor died: nothing else would ever end it. */
async function endLost(parts: EngineParts): Promise<void> {
  const { ledger, endings } = parts
  const onBooks = new Set((await ledger.incarnations()).map(({ id }) => id))
  const lost = await endings.lost(onBooks)
  if (lost.length === 0) return
  const ended = lost.map((end) => ({ ...end, report: alreadyClean(parts, end.agentId, { trigger: 'recovery' }) }))
  await ledger.settle({ outcomes: [], closedScopeIds: [], forgottenScopeIds: [], agents: { ended, stuckIds: [] } })
}

/**
 * Somebody else's claim counts only while that somebody lives; our own is carried on. A tree that we are part of
 * ourselves is not ours to end: we would be the one who is always left.
 */
function mayClaim(parts: EngineParts, record: IncarnationRecord): boolean {
  if (parts.host.outerIncarnations?.has(record.id)) return false
  if (record.claimedBy === undefined || record.claimedBy === parts.host.incarnationId) return true
  return parts.host.vitality(record.claimedBy) === 'dead'
}

async function recoverOne(parts: EngineParts, record: IncarnationRecord): Promise<readonly Report[]> {
  const books = await parts.ledger.books(record.id, 'open')
  // A closed scope with something open in it is a close whose books were lost half-way: it is looked at again.
  const isOwing = (id: string): boolean => books.resources.some((resource) => resource.scopeId === id && resource.state !== 'released')
  const unfinished = books.scopes.filter((scope) => scope.state !== 'closed' || isOwing(scope.id))
  const kept = keptAgents(books)
  const adopted = await adopt(parts, kept, books)
  const left = await spared(
    parts,
    kept.filter(({ scope }) => parts.running.adopter === undefined && !adopted.has(scope.id)),
    unfinished,
  )
  const open = unfinished.filter(({ id }) => !adopted.has(id) && !left.has(id))
  // What the reaper is closing again at this moment is in the book already, and newer there.
  const news = open.filter((scope) => !parts.flights.has(scope.id))
  parts.book.load(
    news,
    books.resources.filter((resource) => news.some((scope) => scope.id === resource.scopeId)),
  )
  const roots = open.filter((scope) => scope.parentId === undefined || !open.some((other) => other.id === scope.parentId))
  // Scopes that somebody had asked to delete go first and on their own, so that the stronger wish survives the crash (G6).
  const wished = open.filter((scope) => isOwnWish(scope, open))
  const reports: Report[] = []
  for (const scope of [...wished.filter((one) => !roots.includes(one)), ...roots]) {
    reports.push(await close(parts, scope.id, recoveryWish(scope)))
  }
  // Somebody who can adopt what was left must not wait for our end.
  if (left.size > 0) await parts.ledger.unclaim(record.id, parts.host.incarnationId)
  else if (reports.every((report) => report.success)) {
    await tidy(parts, record.id)
    await parts.ledger.retire(record.id)
  }
  return reports
}

/** What cannot be taken over is ended like everything else. */
async function adopt(parts: EngineParts, ...[kept, books]: Parameters<Adopter>): ReturnType<Adopter> {
  const { adopter } = parts.running
  return adopter && kept.length > 0 ? await adopter(kept, books) : new Set()
}

function isOwnWish(scope: Scope, all: readonly Scope[]): boolean {
  const parent = all.find((other) => other.id === scope.parentId)
  return scope.wish !== undefined && JSON.stringify(parent?.wish) !== JSON.stringify(scope.wish)
}

/** The trigger says why it is being closed now; what it had been asked to forget stays forgotten. */
function recoveryWish(scope: Scope): Wish {
  const forget =
    scope.wish?.forget === true ||
    scope.wish?.trigger === 'deleted' ||
    scope.wish?.trigger === 'test-reset' ||
    scope.wish?.trigger === 'launch-rollback'
  return {
    trigger: 'recovery',
    ...(forget && { forget }),
    ...(scope.wish?.force && { force: true }),
  }
}
