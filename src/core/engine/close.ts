import { type CloseRequest, dropsLogs, forgets, renew, withoutDeadline } from '../model/close-request.ts'
import { sentence } from '../model/errors.ts'
import { scopeOfResource } from '../model/identity.ts'
import { isClean, type Report } from '../model/report.ts'
import type { ScopeKind } from '../model/scope.ts'
import type { EndedScope } from '../ports/endings.ts'
import type { Outcome } from '../ports/ledger.ts'
import type { CloseOptions } from './api.ts'
import { CloseOperation } from './close-operation.ts'
import type { EngineParts } from './parts.ts'
import { Progress } from './progress.ts'
import { noop, within } from './race.ts'
import { recordedInTime, unrecorded } from './release.ts'
import { closingState, type OwnedScope } from './scope-registry.ts'
import { sweep } from './sweep.ts'
import { describeError, releaseAll } from './waves.ts'

/**
 * Closes a scope. Every end of a resource is a close: it releases the resources in the order of their dependencies, proves that they are
 * gone, sweeps for others that belong to the scope, and writes a report.
 */

/** How long a close waits for the ledger at its end, before it answers without it (G12). */
const settleBudgetMs = 2_000

/**
 * How long a close waits until the ledger has its request, before it signals a resource that outlives this process. It signals after that
 * even without the ledger, because a kill needs none (G12).
 */
const knownBudgetMs = 100

/** How long a close waits for creations that have not finished. Creations that take longer are errors in the report. */
const creationBudgetMs = 10_000

export function close(parts: EngineParts, scopeId: string, closeRequest: CloseRequest, options: CloseOptions = {}): Promise<Report> {
  const running = parts.operations.get(scopeId)
  if (running) {
    if (running.join(closeRequest)) {
      record(parts, scopeId, running).catch(noop) // A failed write of the request is reported by `running.isRecorded()`.
      for (const member of parts.registry.tree(scopeId)) {
        member.closeRequest = renew(member.closeRequest, running.closeRequest)
        if (member.id !== scopeId) joinBelow(parts.operations.get(member.id), closeRequest, running)
      }
    }
    options.partOf?.include(running.progress)
    return running.report
  }
  const scope = parts.registry.find(scopeId)
  if (!scope) return Promise.resolve(alreadyClean(parts, scopeId, closeRequest, options.name))
  return start(parts, scope, closeRequest, options.isPart || options.partOf ? 'part' : 'root', { progress: options.partOf })
}

/** Stores the request of a close in the ledger, for its scope and all scopes below. Waits for the scope's own record first. */
function record(parts: EngineParts, scopeId: string, operation: CloseOperation): Promise<void> {
  const { closeRequest } = operation
  const recording = parts.registry.find(scopeId)?.recording ?? Promise.resolve()
  // A deleted log cannot be restored after a power cut, so the request that deleted it must survive one. The logs of a failed launch need
  // not be kept.
  const isDropping =
    dropsLogs(closeRequest) &&
    closeRequest.trigger !== 'launch-rollback' &&
    parts.registry.tree(scopeId).some((member) => mayHaveLogs(parts, member))
  // The request is stored even when the write of the scope's record failed, because only the answer of that write may be lost.
  const recorded = recording.then(() => parts.ledger.beginClose(scopeId, closeRequest, isDropping ? 'power-cut' : 'crash'))
  operation.recordedBy(recorded)
  return recorded
}

/**
 * Whether the scope may have logs or an archive. It has none when no resource of it has obligations. The resources of a scope that another
 * process opened are not known here, so such a scope may have logs.
 */
function mayHaveLogs(parts: EngineParts, scope: OwnedScope): boolean {
  return scope.incarnation !== parts.host.incarnationId || [...scope.entries.values()].some(({ kind }) => kind.obligations !== undefined)
}

/** Applies the request of a scope above to a close that runs below it. */
function joinBelow(running: CloseOperation | undefined, closeRequest: CloseRequest, above: CloseOperation): void {
  if (running?.join(closeRequest)) running.recordedWith(above)
}

/** Why a close runs: it was requested by itself, as a part of a larger operation, or by the close of the scope above. */
type Place = 'root' | 'part' | 'below'

/** The larger operation that a close belongs to. */
interface Above {
  readonly progress: Progress | undefined
  /** The close of the scope above. The request that it stores in the ledger applies to the scopes below, too. */
  readonly operation?: CloseOperation
}

function start(parts: EngineParts, scope: OwnedScope, closeRequest: CloseRequest, place: Place, above: Above): Promise<Report> {
  const request = renew(withoutDeadline(scope.closeRequest), closeRequest)
  const operation = new CloseOperation(parts.clock, request, parts.newId(), (begun) => {
    // The operation is entered in the table of running closes before its progress is emitted, so that a listener that closes the scope
    // joins this close.
    parts.operations.set(scope.id, begun)
    return progressOf(parts, scope, begun, place)
  })
  above.progress?.include(operation.progress)
  // The state is changed in memory first: from here on the scope accepts nothing, whatever the state of the database (G12, G13).
  for (const member of parts.registry.tree(scope.id)) {
    if (member.state === 'open') member.state = 'closing'
    // A scope below may have a stronger request of its own, from an earlier close that did not finish.
    member.closeRequest = renew(member.closeRequest, operation.closeRequest)
    member.closing.abort()
  }
  const isInRecordAbove = above.operation && dropsLogs(above.operation.closeRequest) === dropsLogs(operation.closeRequest)
  if (isInRecordAbove) operation.recordedWith(above.operation)
  const recorded = isInRecordAbove
    ? Promise.resolve()
    : record(parts, scope.id, operation).catch(
        (error: unknown) =>
          void parts.log.warn(`Cleanup: the ledger could not record that ${scope.id} is closing.`, {
            trigger: operation.closeRequest.trigger,
            ...parts.registry.placeOf(scope),
            error: sentence(error),
          }),
      )
  const requestStored = outlivesUs(parts, scope) ? within(parts.clock, knownBudgetMs, recorded) : undefined
  const closed = requestStored
    ? requestStored.then(() => performClose(parts, scope, operation, place))
    : performClose(parts, scope, operation, place)
  const answered = closed
    .finally(() => {
      parts.operations.delete(scope.id)
      operation.progress.end()
    })
    .then(async (report) => {
      await within(parts.clock, settleBudgetMs, recorded)
      return report
    })
  operation.endsWith(answered)
  return operation.report
}

/**
 * True when the scope has resources that outlive this process. If this process is killed after it signalled them and before the ledger has
 * the request, the next server takes their end for an exit of their own (G6).
 */
function outlivesUs({ registry }: EngineParts, scope: OwnedScope): boolean {
  const isKept = ({ entries }: OwnedScope): boolean =>
    [...entries.values()].some(({ intent, state }) => intent.onLoss === 'keep' && state !== 'released')
  return registry.tree(scope.id).some(isKept)
}

/** Makes the progress of a close. It tracks every open resource from the start, so that observers see what is waiting. */
function progressOf(
  parts: EngineParts,
  scope: OwnedScope,
  { id, closeRequest, startedAt, startedMs }: CloseOperation,
  place: Place,
): Progress {
  const named = { kind: scope.kind, id: scope.label ?? scope.id }
  const namespace = parts.registry.namespaceOf(scope)
  const about = { id, trigger: closeRequest.trigger, scope: named, startedAt, startedMs, ...(namespace !== undefined && { namespace }) }
  const progress = place === 'root' ? new Progress(parts.events.progress, about) : new Progress()
  for (const entry of scope.entries.values())
    if (entry.state !== 'released') progress.track(entry, { scope: named, namespace }, parts.clock)
  return progress
}

async function performClose(parts: EngineParts, scope: OwnedScope, operation: CloseOperation, place: Place): Promise<Report> {
  const below = await Promise.all([...scope.children].map((id) => closeChild(parts, id, operation)))
  const creations = await within(parts.clock, Math.min(creationBudgetMs, operation.remainingMs()), Promise.allSettled(scope.creations))
  const errors = creations.timedOut ? [`A creation in scope ${scope.id} did not finish in time.`] : []

  const released = await releaseAll(parts, scope, operation)
  const swept = place === 'below' ? [] : await sweep(parts, scope, operation)
  released.push(...swept)

  const resources = [...below.flatMap((report) => report.resources), ...released.map(({ report }) => report)]
  const success = isClean(resources) && errors.length === 0 && below.every((child) => child.success)
  const report: Report = {
    success,
    trigger: operation.closeRequest.trigger,
    scope: { kind: scope.kind, id: scope.label ?? scope.id },
    startedAt: operation.startedAt,
    duration: Math.round((parts.clock.now() - operation.startedMs) * 10) / 10,
    cleanedAgentsCount: below.reduce((sum, child) => sum + child.cleanedAgentsCount, scope.kind === 'agent' && success ? 1 : 0),
    cleanedMessagesCount: below.reduce((sum, child) => sum + child.cleanedMessagesCount, 0),
    resources,
    errors: [
      ...errors,
      ...below.flatMap((child) => child.errors),
      ...released.flatMap(({ report }) => (report.error ? [describeError(report)] : [])),
    ],
    gaveUp: [...below.flatMap((child) => child.gaveUp), ...released.flatMap(({ gaveUp }) => gaveUp)],
  }
  scope.report = report
  return place === 'below' ? report : await finish(parts, scope, operation, { place, isSwept: isClean(swept.map(({ report }) => report)) })
}

/** Closes a scope below the scope of a close. A close of that scope that already runs is joined, so the work is done once (G6). */
function closeChild(parts: EngineParts, id: string, operation: CloseOperation): Promise<Report> {
  const running = parts.operations.get(id)
  if (running) {
    joinBelow(running, operation.closeRequest, operation)
    operation.progress.include(running.progress)
    return running.report
  }
  const child = parts.registry.find(id)
  return child
    ? start(parts, child, operation.closeRequest, 'below', { progress: operation.progress, operation })
    : Promise.resolve(alreadyClean(parts, id, operation.closeRequest))
}

interface Finish {
  readonly place: Place
  /** True when everything that the sweep found was released. */
  readonly isSwept: boolean
}

/** Writes the outcome of a close to the ledger. A ledger that cannot be written changes the report, never the kill (G12). */
async function finish(parts: EngineParts, scope: OwnedScope, operation: CloseOperation, at: Finish): Promise<Report> {
  const cleared = await clear(parts, scope, operation, at.isSwept)
  const outcome = await within(
    parts.clock,
    settleBudgetMs,
    settle(parts, scope, cleared, at.place === 'root' && operation.id).catch(sentence),
  )
  const result = outcome.timedOut ? 'the database did not answer in time' : outcome.value
  // When the ledger could not be written in time, the scope stays in the registry, and the reaper or the next close settles it again.
  const error = typeof result === 'string' ? result : undefined
  const report = typeof result === 'string' ? reportOf(scope) : result
  const final =
    error === undefined
      ? report
      : {
          ...report,
          errors: [...report.errors, `The ledger could not be written (${error}); the reaper or the next start will correct it.`],
        }
  const fields = { trigger: report.trigger, ...parts.registry.placeOf(scope), duration: report.duration }
  const what = scope.kind === 'request' || scope.kind === 'task' ? `${scope.kind} ${scope.label ?? scope.id}` : `scope ${scope.id}`
  if (!report.success) parts.log.error(`Cleanup: ${what} is not clean: ${report.errors.join('; ')}`, fields)
  else if (error !== undefined) parts.log.warn(`Cleanup: ${what} is clean, but ${error}`, fields)
  else parts.log.info(`Cleanup: ${what} is clean.`, fields)
  operation.progress.end()
  if (at.place === 'root') parts.events.emit('report', final, parts.registry.namespaceOf(scope), operation.id)
  return final
}

interface Cleared {
  /** The clean scopes. They are closed even when others of the tree are not clean. */
  readonly ended: readonly EndedScope[]
  /** Scopes with something left that is not a resource, such as an archive. */
  readonly withLeftovers: ReadonlySet<string>
  readonly messagesGone: number
}

/**
 * Removes archives and messages, which must be gone before the records are. The removal has no part in the time limit for the ledger,
 * because deleting a million messages takes a while without the database being locked.
 */
async function clear(parts: EngineParts, scope: OwnedScope, operation: CloseOperation, isSwept: boolean): Promise<Cleared> {
  // If the sweep could not release everything it found, the rest may belong to any scope of the tree, so none may be recorded clean.
  const clean = isSwept ? parts.registry.tree(scope.id).filter((member) => member.report?.success) : []
  const ended = clean.map(
    (member): EndedScope => ({
      id: member.id,
      kind: member.kind,
      report: reportOf(member),
      isForgotten: forgets(member.closeRequest ?? operation.closeRequest),
      dropsLogs: dropsLogs(member.closeRequest ?? operation.closeRequest),
    }),
  )
  const unrecordedIds = await idsWithoutRecord(parts, ended, operation)
  const { left, messagesGone } = await parts.endings.clear(ended.filter(({ id }) => !unrecordedIds.has(id)))
  const problems = new Map([...left, ...[...unrecordedIds].map((id) => [id, `archive of agent ${id}: ${unrecorded}`] as const)])
  for (const [id, problem] of problems) markUnclean(parts, scope, id, problem)
  return {
    ended: ended.filter(({ id }) => parts.registry.find(id)?.report?.success),
    withLeftovers: new Set(problems.keys()),
    messagesGone,
  }
}

/**
 * The agents whose archive must not be deleted yet. Until the ledger has recorded the request, a crash would leave the agent on record
 * without its archive (G8). Agents that keep their archive do not wait for the ledger.
 */
async function idsWithoutRecord(parts: EngineParts, ended: readonly EndedScope[], operation: CloseOperation): Promise<ReadonlySet<string>> {
  const ids = ended
    .filter(({ kind, dropsLogs: dropsArchive }) => kind === 'agent' && dropsArchive)
    .flatMap(({ id }) => parts.registry.find(id) ?? [])
    .filter((scope) => mayHaveLogs(parts, scope))
    .map(({ id }) => id)
  if (ids.length === 0 || (await recordedInTime(parts.clock, operation, settleBudgetMs))) return new Set()
  return new Set(ids)
}

/**
 * Marks the reports of a scope, and of all scopes above it up to `top`, as unsuccessful, because something of the scope is left. Two closes
 * that overlap may mark the same scope, such as its own close and that of a scope above. But the scope was counted as cleaned only once.
 */
function markUnclean(parts: EngineParts, top: OwnedScope, id: string, problem: string): void {
  const counted = parts.registry.find(id)?.report?.cleanedAgentsCount ?? 0
  for (let scope = parts.registry.find(id); scope; scope = scope === top ? undefined : parts.registry.find(scope.parentId ?? '')) {
    const { errors, cleanedAgentsCount, ...report } = reportOf(scope)
    const cleaned = Math.max(0, cleanedAgentsCount - counted)
    scope.report = { ...report, success: false, cleanedAgentsCount: cleaned, errors: [...errors, problem] }
  }
}

/**
 * Writes the end of a close in one transaction: the outcomes of all resources, the closed scopes, the ends of their agents, and the report.
 */
async function settle(parts: EngineParts, scope: OwnedScope, cleared: Cleared, reportId: string | false): Promise<Report> {
  const { ended, withLeftovers, messagesGone } = cleared
  const tree = parts.registry.tree(scope.id)
  // A scope whose record is still being written must not appear in the ledger after its end.
  await Promise.all(tree.map((member) => member.recording))
  const closedIds = new Set(ended.map(({ id }) => id))
  const stuck = scopesOfStuck(tree)
  const left = tree
    .filter((member) => member.kind === 'agent' && !closedIds.has(member.id))
    .map((member) => ({ id: member.id, report: reportOf(member), isStuck: withLeftovers.has(member.id) || stuck.has(member.id) }))
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
    parts.registry.forget(member.id)
  }
  parts.endings.settled(ended, agents.ended, left)
  return report
}

function reportOf(scope: OwnedScope): Report {
  if (!scope.report) throw new Error(`Scope ${scope.id} was settled before it was closed.`)
  return scope.report
}

/**
 * The ids of scopes with a stuck resource. When the sweep of a scope above adopted the resource, they include both that scope and the one
 * that the id of the resource names.
 */
function scopesOfStuck(tree: readonly OwnedScope[]): ReadonlySet<string> {
  const stuck = tree.flatMap(({ entries }) => [...entries.values()].filter(({ state }) => state === 'stuck'))
  return new Set(stuck.flatMap(({ intent }) => [intent.scopeId, scopeOfResource(intent.id)]))
}

function outcomesOf(tree: readonly OwnedScope[]): readonly Outcome[] {
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

/** The report for a scope that the registry does not have. The caller must know that the scope is not another process's. */
export function alreadyClean(parts: EngineParts, scopeId: string, closeRequest: CloseRequest, name?: Report['scope']): Report {
  const what = name ? `${name.kind} ${name.id}` : `scope ${scopeId}`
  const named = name?.kind === 'request' || name?.kind === 'task' ? { [name.kind]: name.id } : {}
  parts.log.info(`Cleanup: ${what} was already clean.`, { trigger: closeRequest.trigger, scope: scopeId, ...named })
  return {
    success: true,
    trigger: closeRequest.trigger,
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

/** Reads the kind of a scope from the prefix of its id. The ids of agent scopes have no prefix. */
function kindOf(scopeId: string): ScopeKind {
  return (['host', 'namespace', 'request', 'task'] as const).find((kind) => scopeId.startsWith(`${kind}-`)) ?? 'agent'
}
