import { EbbError, isEbbError, sentence } from '../model/errors.ts'
import type { Report } from '../model/report.ts'
import type { Handles } from '../ports/handles.ts'
import type { CreateCtx, Created, Planned } from '../ports/kind.ts'
import type { PreparedRow } from '../ports/prepared-row.ts'
import { close } from './close.ts'
import { type Registration, writeOpening } from './opening.ts'
import type { EngineParts } from './parts.ts'
import { noop, scopeClosed, within } from './race.ts'
import type { Entry, OwnedScope } from './scope-registry.ts'

const createBudgetMs = 30_000

/** What a launch creates, and the rows that the ledger writes with the intents. */
export interface Launch {
  readonly plan: readonly Planned[]
  readonly rows: readonly PreparedRow[]
}

/**
 * Writes all intents in one transaction, then creates the resources in the order of the plan, then records them as `held` (G1). Throws at
 * the first failure. The close of the scope removes what exists by then.
 */
export async function acquire(parts: EngineParts, scope: OwnedScope, launching: Launch, registration: Registration): Promise<Handles> {
  const { plan, rows } = launching
  if (scope.state !== 'open') throw scopeClosed(scope.id)
  const ids = new Map<string, string>(plan.map((planned) => [planned.label, parts.registry.nextId(scope)]))
  const entries = plan.map((planned): Step => {
    const intent = {
      id: ids.get(planned.label) ?? '',
      scopeId: scope.id,
      incarnation: scope.incarnation,
      kind: planned.kind,
      spec: planned.spec,
      dependsOn: (planned.dependsOn ?? []).map((label) => ids.get(label) ?? label),
      onLoss: planned.onLoss ?? 'end',
    }
    return { planned, entry: parts.registry.enter(scope, intent) }
  })
  const work = createAll(parts, scope, { entries, rows }, registration)
  scope.creations.add(work)
  try {
    return await work
  } finally {
    scope.creations.delete(work)
  }
}

interface Step {
  readonly planned: Planned
  readonly entry: Entry
}

interface Steps {
  readonly entries: readonly Step[]
  readonly rows: readonly PreparedRow[]
}

async function createAll(parts: EngineParts, scope: OwnedScope, { entries, rows }: Steps, registration: Registration): Promise<Handles> {
  const intents = entries.map(({ entry }) => ({ ...entry.intent, name: entry.name }))
  const survives = entries.some(({ entry }) => entry.kind.outlivesPower) ? 'power-cut' : 'crash'
  let isAsked = false
  const { rowsStored } = await writeOpening(parts, registration, { scope, rows }, (opening) => {
    isAsked = true
    return parts.ledger.intend(scope.id, intents, survives, opening)
  }).catch((error: unknown) => {
    // A refusal by the ledger proves that the intents were not written, so their resources are dropped. After any other error the intents
    // may have been written, because the answer may be lost. The close then observes the resources.
    if (!isAsked || isRefusal(error)) for (const { entry } of entries) scope.entries.delete(entry.intent.id)
    throw error
  })
  // The creation does not wait for the disk, because a crash loses nothing that was written. The answer of the launch does wait.
  rowsStored.catch(noop)
  for (const { planned, entry } of entries) {
    // The scope may have begun to close while the intents were written (G13).
    if (scope.state !== 'open') throw scopeClosed(scope.id)
    const creation = createOne(parts, scope, { planned, entry })
    const created = await within(parts.clock, entry.kind.createBudgetMs ?? createBudgetMs, creation)
    if (created.timedOut) throw new EbbError('launch_failed', `Creating ${entry.intent.kind} ${entry.name} took too long.`)
    entry.state = 'held'
    scope.handles.add(planned.label, created.value.handle)
  }
  await parts.ledger.hold(
    entries.map(({ entry }) => ({
      resourceId: entry.intent.id,
      ...(entry.intent.detail !== undefined && { detail: entry.intent.detail }),
    })),
  )
  await rowsStored
  return scope.handles
}

/** True for an error that proves that nothing was written: the scope is closing, or the ledger accepts no writes. */
function isRefusal(error: unknown): boolean {
  return isEbbError(error, 'scope_closed') || refusesWrites(error)
}

/** True when the lock of the database was never obtained, or the database is read-only. */
function refusesWrites(error: unknown): boolean {
  return isEbbError(error, 'ledger_busy') || isEbbError(error, 'ledger_read_only')
}

/** Creates one resource. A close waits for the creation even after the launch has given up, because the resource may still appear. */
async function createOne(parts: EngineParts, scope: OwnedScope, { planned, entry }: Step): Promise<Created> {
  entry.isBeingCreated = true
  const ctx: CreateCtx = {
    signal: scope.closing.signal,
    clock: parts.clock,
    live: planned.live,
    handles: scope.handles,
    record: async (detail) => {
      setDetail(entry, detail)
      await parts.ledger.record(entry.intent.id, detail, entry.kind.outlivesPower ? 'power-cut' : 'crash')
    },
  }
  const creation = (async () => await entry.kind.create(entry.ref, planned.spec, ctx))()
  scope.creations.add(creation)
  try {
    const created = await creation
    if (created.detail !== undefined) setDetail(entry, created.detail)
    return created
  } finally {
    entry.isBeingCreated = false
    scope.creations.delete(creation)
  }
}

/** The name of a resource may depend on its detail, so it is computed again. */
function setDetail(entry: Entry, detail: unknown): void {
  Object.assign(entry.intent, { detail })
  entry.ref = entry.kind.name(entry.intent)
}

/**
 * Launches a plan. On any failure the scope is closed with `launch-rollback`, and the error says what failed and whether everything could
 * be removed.
 */
export async function launch(parts: EngineParts, scope: OwnedScope, launching: Launch, registration: Registration): Promise<Handles> {
  try {
    return await acquire(parts, scope, launching, registration)
  } catch (error) {
    // Nothing was created, and the ledger accepts no writes, so there is nothing to roll back.
    if (refusesWrites(error) && scope.entries.size === 0) {
      parts.registry.forget(scope.id)
      throw error
    }
    // A creation that was aborted because its scope closed is reported as the close of the scope.
    const cause = scope.state === 'open' || error instanceof EbbError ? error : scopeClosed(scope.id)
    // A close of the scope that already runs is awaited. A rollback would add nothing to it.
    const report = await (parts.operations.get(scope.id)?.report ?? close(parts, scope.id, { trigger: 'launch-rollback' }))
    throw rolledBack(cause, report)
  }
}

/** The report of a failed rollback, when the error of the launch has one. A second close right after it would find the same. */
export function rollbackOf(error: unknown): Report | undefined {
  const report = isEbbError(error, 'launch_failed') ? error.details : undefined
  return report?.success === false ? report : undefined
}

/** The error for the caller: the cause, and whether the rollback succeeded. A refusal that left nothing behind is passed on as it is. */
export function rolledBack(error: unknown, report: Report): EbbError {
  const isFailure = isEbbError(error, 'launch_failed')
  if (isFailure && error.details !== undefined) return error
  if (error instanceof EbbError && report.success && !isFailure) return error
  const reason = sentence(error).replace(/\.$/, '')
  const what = isFailure ? reason : `The launch failed${report.success ? ' and was rolled back' : ''}: ${reason}`
  const left = report.success ? '' : ' Not everything it had created could be removed; "ebb status" lists what is left.'
  return new EbbError('launch_failed', `${what}.${left}`, { cause: error, details: report })
}
