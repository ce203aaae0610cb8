import type { CloseRequest } from '../model/close-request.ts'
import { sentence } from '../model/errors.ts'
import type { Vitality } from '../model/identity.ts'
import type { Report } from '../model/report.ts'
import type { Resource } from '../model/resource.ts'
import type { Scope } from '../model/scope.ts'
import type { IncarnationRecord, LedgerContents } from '../ports/ledger.ts'
import type { Adopter, RecoverOptions, Recovery } from './api.ts'
import { alreadyClean, close } from './close.ts'
import { keptAgents, spared } from './kept-agents.ts'
import { type EngineParts, tidy } from './parts.ts'
import { backoffMs, noop, pause } from './race.ts'

/**
 * Finishes what dead supervisors of this installation left. Only incarnations that are proven dead are touched. Each is claimed by
 * compare-and-set, so two recoveries never work on the same one. With `waitMs`, what another process (such as a sentinel) is
 * recovering is waited for, and recovered here when that process leaves something.
 */
export function recover(parts: EngineParts, { waitMs = 0, releasesClaims = false }: RecoverOptions = {}): Promise<Recovery> {
  return waitMs > 0 ? recoverPatiently(parts, releasesClaims, waitMs) : recoverOnce(parts, releasesClaims)
}

async function recoverPatiently(parts: EngineParts, releasesClaims: boolean, waitMs: number): Promise<Recovery> {
  const untilMs = parts.clock.now() + waitMs
  let recovery = await recoverOnce(parts, releasesClaims)
  // The other process may have finished before the look at it, so the test is what this one was not given.
  while (recovery.elsewhere.length > 0 && parts.clock.now() < untilMs) {
    await untilLetGo(parts, recovery.elsewhere, untilMs)
    recovery = together(recovery, await recoverOnce(parts, releasesClaims))
  }
  return recovery
}

/** Two recoveries at once in one process are one. */
function recoverOnce(parts: EngineParts, releasesClaims: boolean): Promise<Recovery> {
  parts.running.recovery ??= recoverAll(parts, releasesClaims).finally(() => {
    delete parts.running.recovery
  })
  return parts.running.recovery
}

function together(first: Recovery, { reports, unknown, elsewhere, errors }: Recovery): Recovery {
  return { reports: [...first.reports, ...reports], unknown, elsewhere, errors: [...first.errors, ...errors] }
}

async function untilLetGo(parts: EngineParts, ids: readonly string[], untilMs: number): Promise<void> {
  const { clock, ledger } = parts
  const isHeld = async (): Promise<boolean> =>
    (await ledger.incarnations()).some((record) => ids.includes(record.id) && claimantVitality(parts, record) === 'alive')
  for (let attempt = 1; clock.now() < untilMs && (await isHeld()); attempt++) await pause(clock, backoffMs(attempt, 100), new Promise(noop))
}

async function recoverAll(parts: EngineParts, releasesClaims: boolean): Promise<Recovery> {
  const reports: Report[] = []
  const unknown: string[] = []
  const elsewhere: string[] = []
  const errors: string[] = []
  for (const record of await parts.ledger.incarnations()) {
    if (record.id === parts.host.incarnationId || record.installation !== parts.host.installation) continue
    const vitality = parts.host.vitality(record.id)
    if (vitality === 'unknown') unknown.push(record.id)
    const claimant = claimantVitality(parts, record)
    if (vitality !== 'dead' || isAroundUs(parts, record) || claimant === 'unknown') continue
    try {
      const isOurs = claimant === 'dead' && (await parts.ledger.claim(record.id, parts.host.incarnationId, record.claimedBy))
      if (!isOurs) {
        elsewhere.push(record.id)
        continue
      }
      const recovered = await recoverOne(parts, record, releasesClaims)
      reports.push(...recovered.reports)
      errors.push(...recovered.beyond.map(notHere))
    } catch (error) {
      errors.push(`Incarnation ${record.id} could not be recovered: ${sentence(error)}`)
      if (releasesClaims) await parts.ledger.unclaim(record.id, parts.host.incarnationId).catch(noop)
    }
  }
  await endLost(parts).catch((error: unknown) => errors.push(`Agents of lost supervisors could not be ended: ${sentence(error)}`))
  return { reports, unknown, elsewhere, errors }
}

/** Its row was written, and its scope was refused or never asked for, when the supervisor died: nothing else would ever end it. */
async function endLost(parts: EngineParts): Promise<void> {
  const { ledger, endings } = parts
  const inLedger = new Set((await ledger.incarnations()).map(({ id }) => id))
  const lost = await endings.lost(inLedger)
  if (lost.length === 0) return
  const ended = lost.map((end) => ({ ...end, report: alreadyClean(parts, end.agentId, { trigger: 'recovery' }) }))
  await ledger.settle({ outcomes: [], closedScopeIds: [], forgottenScopeIds: [], agents: { ended, stuckIds: [] } })
}

/** A tree that we are part of ourselves is not ours to end: we would be the one who is always left. */
function isAroundUs({ host }: EngineParts, { id }: IncarnationRecord): boolean {
  return host.outerIncarnations?.has(id) === true
}

/** Somebody else's claim counts only while that somebody lives, or may live; our own is carried on. */
function claimantVitality({ host }: EngineParts, { claimedBy }: IncarnationRecord): Vitality {
  return claimedBy === undefined || claimedBy === host.incarnationId ? 'dead' : host.vitality(claimedBy)
}

interface Recovered {
  readonly reports: readonly Report[]
  /** What only a process with other settings can end. */
  readonly beyond: readonly Resource[]
}

function notHere({ kind, name }: Resource): string {
  return `${kind} ${name} of a dead supervisor needs the settings of its placement, which are not given here; recover with them.`
}

async function recoverOne(parts: EngineParts, record: IncarnationRecord, releasesClaims: boolean): Promise<Recovered> {
  const contents = await parts.ledger.contents(record.id, 'open')
  // A closed scope with something open in it is a close whose books were lost half-way: it is looked at again.
  const isOwing = (id: string): boolean => contents.resources.some((resource) => resource.scopeId === id && resource.state !== 'released')
  const unfinished = contents.scopes.filter((scope) => scope.state !== 'closed' || isOwing(scope.id))
  const beyond = beyondUs(parts, contents)
  const kept = keptAgents(contents).filter(({ scope }) => !beyond.some(({ scopeId }) => scopeId === scope.id))
  const adopted = await adopt(parts, kept, contents)
  const sparedIds = await spared(
    parts,
    kept.filter(({ scope }) => parts.running.adopter === undefined && !adopted.has(scope.id)),
    unfinished,
  )
  const left = new Set([...sparedIds, ...beyond.flatMap(({ scopeId }) => pathTo(scopeId, contents.scopes))])
  const open = unfinished.filter(({ id }) => !adopted.has(id) && !left.has(id))
  // What the reaper is closing again at this moment is in the book already, and newer there.
  const news = open.filter((scope) => !parts.operations.has(scope.id))
  parts.registry.load(
    news,
    contents.resources.filter((resource) => news.some((scope) => scope.id === resource.scopeId)),
  )
  const roots = open.filter((scope) => scope.parentId === undefined || !open.some((other) => other.id === scope.parentId))
  // Scopes that somebody had asked to delete go first and on their own, so that the stronger wish survives the crash (G6).
  const requested = open.filter((scope) => hasOwnRequest(scope, open))
  const reports: Report[] = []
  for (const scope of [...requested.filter((one) => !roots.includes(one)), ...roots]) {
    reports.push(await close(parts, scope.id, recoveryRequest(scope)))
  }
  const isDone = reports.every((report) => report.success)
  if (!isDone && releasesClaims) for (const { id } of news) parts.registry.forget(id)
  // Somebody who can adopt, end or try again what was left must not wait for our end.
  if (left.size > 0 || (!isDone && releasesClaims)) await parts.ledger.unclaim(record.id, parts.host.incarnationId)
  else if (isDone) {
    await tidy(parts, record.id)
    await parts.ledger.retire(record.id)
  }
  return { reports, beyond }
}

/** Of kinds that this process was given no settings for: whoever has them can end these, and to us they would only be unknown for ever. */
function beyondUs({ kinds }: EngineParts, { resources }: LedgerContents): readonly Resource[] {
  return resources.filter(({ kind, state }) => state !== 'released' && !kinds.has(kind))
}

function pathTo(scopeId: string, scopes: readonly Scope[]): readonly string[] {
  const scope = scopes.find(({ id }) => id === scopeId)
  return scope ? [scope.id, ...(scope.parentId === undefined ? [] : pathTo(scope.parentId, scopes))] : []
}

/** What cannot be taken over is ended like everything else. */
async function adopt(parts: EngineParts, ...[kept, contents]: Parameters<Adopter>): ReturnType<Adopter> {
  const { adopter } = parts.running
  return adopter && kept.length > 0 ? await adopter(kept, contents) : new Set()
}

function hasOwnRequest(scope: Scope, all: readonly Scope[]): boolean {
  const parent = all.find((other) => other.id === scope.parentId)
  return scope.closeRequest !== undefined && JSON.stringify(parent?.closeRequest) !== JSON.stringify(scope.closeRequest)
}

/** The trigger says why it is being closed now; what it had been asked to forget stays forgotten. */
function recoveryRequest(scope: Scope): CloseRequest {
  const forget =
    scope.closeRequest?.forget === true ||
    scope.closeRequest?.trigger === 'deleted' ||
    scope.closeRequest?.trigger === 'test-reset' ||
    scope.closeRequest?.trigger === 'launch-rollback'
  return {
    trigger: 'recovery',
    ...(forget && { forget }),
    ...(scope.closeRequest?.force && { force: true }),
  }
}
