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
 * compare-and-set, so two recoveries never work on the same one. With `waitMs`, the recovery waits for other processes (such as a sentinel)
 * that are recovering an incarnation, and recovers what they leave.
 */
export function recover(parts: EngineParts, { waitMs = 0, releasesClaims = false }: RecoverOptions = {}): Promise<Recovery> {
  return waitMs > 0 ? recoverPatiently(parts, releasesClaims, waitMs) : recoverOnce(parts, releasesClaims)
}

async function recoverPatiently(parts: EngineParts, releasesClaims: boolean, waitMs: number): Promise<Recovery> {
  const untilMs = parts.clock.now() + waitMs
  let recovery = await recoverOnce(parts, releasesClaims)
  // The loop tests which supervisors this process could not claim. It does not test whether another process holds a claim now, because that
  // process may have finished meanwhile.
  while (recovery.elsewhere.length > 0 && parts.clock.now() < untilMs) {
    await waitForClaims(parts, recovery.elsewhere, untilMs)
    recovery = together(recovery, await recoverOnce(parts, releasesClaims))
  }
  return recovery
}

/** Calls in one process that overlap share one recovery. A call with another `releasesClaims` has its own, after the running one. */
function recoverOnce(parts: EngineParts, releasesClaims: boolean): Promise<Recovery> {
  const { running } = parts
  const latest = running.recovery
  if (latest?.releasesClaims === releasesClaims) return latest.result
  const begin = (): Promise<Recovery> => recoverAll(parts, releasesClaims)
  // An error of the running recovery goes to the callers of that one only.
  const result = (latest ? latest.result.then(noop, noop).then(begin) : begin()).finally(() => {
    if (running.recovery?.result === result) delete running.recovery
  })
  running.recovery = { result, releasesClaims }
  return result
}

function together(first: Recovery, { reports, unknown, elsewhere, errors }: Recovery): Recovery {
  return { reports: [...first.reports, ...reports], unknown, elsewhere, errors: [...first.errors, ...errors] }
}

async function waitForClaims(parts: EngineParts, ids: readonly string[], untilMs: number): Promise<void> {
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
    if (vitality !== 'dead' || isOuterSupervisor(parts, record) || claimant === 'unknown') continue
    try {
      const isOurs = claimant === 'dead' && (await parts.ledger.claim(record.id, parts.host.incarnationId, record.claimedBy))
      if (!isOurs) {
        elsewhere.push(record.id)
        continue
      }
      const recovered = await recoverOne(parts, record, releasesClaims)
      reports.push(...recovered.reports)
      errors.push(...recovered.unsupported.map(needsSettings))
    } catch (error) {
      errors.push(`Incarnation ${record.id} could not be recovered: ${sentence(error)}`)
      // When the claim cannot be given back, it ends with this process.
      if (releasesClaims) await parts.ledger.unclaim(record.id, parts.host.incarnationId).catch(noop)
    }
  }
  await endLost(parts).catch((error: unknown) => errors.push(`Agents of lost supervisors could not be ended: ${sentence(error)}`))
  return { reports, unknown, elsewhere, errors }
}

/**
 * Ends agents whose row was written, but whose scope never was. Before row and scope were one transaction, this happened when their
 * supervisor died in between. No close would end them.
 */
async function endLost(parts: EngineParts): Promise<void> {
  const { ledger, endings } = parts
  const inLedger = new Set((await ledger.incarnations()).map(({ id }) => id))
  const lost = await endings.lost(inLedger)
  if (lost.length === 0) return
  const ended = lost.map((end) => ({ ...end, report: alreadyClean(parts, end.agentId, { trigger: 'recovery' }) }))
  await ledger.settle({ outcomes: [], closedScopeIds: [], forgottenScopeIds: [], agents: { ended, stuckIds: [] } })
}

/**
 * True for a supervisor in whose process tree this process runs. Its tree cannot be ended from inside, because this process would always be
 * left.
 */
function isOuterSupervisor({ host }: EngineParts, { id }: IncarnationRecord): boolean {
  return host.outerIncarnations?.has(id) === true
}

/** Another process's claim counts only while that process is alive, or may be. A claim of this process is continued. */
function claimantVitality({ host }: EngineParts, { claimedBy }: IncarnationRecord): Vitality {
  return claimedBy === undefined || claimedBy === host.incarnationId ? 'dead' : host.vitality(claimedBy)
}

interface Recovered {
  readonly reports: readonly Report[]
  /** Resources of kinds that this process does not know. Only a process with other settings can end them. */
  readonly unsupported: readonly Resource[]
}

function needsSettings({ kind, name }: Resource): string {
  return `${kind} ${name} of a dead supervisor needs the settings of its placement, which this process does not have; run the recovery again with them.`
}

async function recoverOne(parts: EngineParts, record: IncarnationRecord, releasesClaims: boolean): Promise<Recovered> {
  const contents = await parts.ledger.contents(record.id, 'open')
  // A closed scope with an open resource comes from a close that did not finish its writes. It is closed again.
  const hasOpenResource = (id: string): boolean =>
    contents.resources.some((resource) => resource.scopeId === id && resource.state !== 'released')
  const unfinished = contents.scopes.filter((scope) => scope.state !== 'closed' || hasOpenResource(scope.id))
  const unsupported = ofUnknownKinds(parts, contents)
  const kept = keptAgents(contents).filter(({ scope }) => !unsupported.some(({ scopeId }) => scopeId === scope.id))
  const adopted = await adopt(parts, kept, contents)
  const sparedIds = await spared(
    parts,
    kept.filter(({ scope }) => parts.running.adopter === undefined && !adopted.has(scope.id)),
    unfinished,
  )
  const left = new Set([...sparedIds, ...unsupported.flatMap(({ scopeId }) => pathTo(scopeId, contents.scopes))])
  const open = unfinished.filter(({ id }) => !adopted.has(id) && !left.has(id))
  // A scope that the reaper is closing at this moment is in the registry already, in a newer state.
  const loaded = open.filter((scope) => !parts.operations.has(scope.id))
  parts.registry.load(
    loaded,
    contents.resources.filter((resource) => loaded.some((scope) => scope.id === resource.scopeId)),
  )
  const roots = open.filter((scope) => scope.parentId === undefined || !open.some((other) => other.id === scope.parentId))
  // Scopes with a request of their own, such as a deletion, are closed first and separately, so that their stronger request is carried out
  // (G6).
  const requested = open.filter((scope) => hasOwnRequest(scope, open))
  const reports: Report[] = []
  for (const scope of [...requested.filter((scope) => !roots.includes(scope)), ...roots]) {
    reports.push(await close(parts, scope.id, recoveryRequest(scope)))
  }
  const isDone = reports.every((report) => report.success)
  if (!isDone && releasesClaims) for (const { id } of loaded) parts.registry.forget(id)
  // The claim is given back at once, so that another process can adopt, end or retry what is left.
  if (left.size > 0 || (!isDone && releasesClaims)) await parts.ledger.unclaim(record.id, parts.host.incarnationId)
  else if (isDone) {
    await tidy(parts, record.id)
    await parts.ledger.retire(record.id)
  }
  return { reports, unsupported }
}

/**
 * Resources of kinds for which this process has no settings. To this process they would stay unknown for ever. A process with the settings
 * can end them.
 */
function ofUnknownKinds({ kinds }: EngineParts, { resources }: LedgerContents): readonly Resource[] {
  return resources.filter(({ kind, state }) => state !== 'released' && !kinds.has(kind))
}

function pathTo(scopeId: string, scopes: readonly Scope[]): readonly string[] {
  const scope = scopes.find(({ id }) => id === scopeId)
  return scope ? [scope.id, ...(scope.parentId === undefined ? [] : pathTo(scope.parentId, scopes))] : []
}

/**
 * Adopts the kept agents of a dead supervisor. In a process with an adopter, agents that cannot be adopted are ended like everything else.
 */
async function adopt(parts: EngineParts, ...[kept, contents]: Parameters<Adopter>): ReturnType<Adopter> {
  const { adopter } = parts.running
  return adopter && kept.length > 0 ? await adopter(kept, contents) : new Set()
}

function hasOwnRequest(scope: Scope, all: readonly Scope[]): boolean {
  const parent = all.find((other) => other.id === scope.parentId)
  return scope.closeRequest !== undefined && JSON.stringify(parent?.closeRequest) !== JSON.stringify(scope.closeRequest)
}

/** The request with which a recovery closes a scope. The trigger is `recovery`. Deletion and force of the earlier request are kept. */
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
