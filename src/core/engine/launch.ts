import { EbbError, isEbbError, sentence } from '../model/errors.ts'
import type { Report } from '../model/report.ts'
import type { CreateCtx, Created, Planned } from '../ports/kind.ts'
import type { Handles } from './api.ts'
import { close } from './close.ts'
import type { EngineParts } from './parts.ts'
import { scopeClosed, within } from './race.ts'
import type { Entry, OwnedScope } from './scope-registry.ts'

const createBudgetMs = 30_000

/**
 * Intents first, all in one transaction; then the world, in order of the plan; then `held` (G1). Throws on the first
 * failure and leaves what is there to the close of the scope.
 */
export async function acquire(parts: EngineParts, scope: OwnedScope, plan: readonly Planned[], watched: Promise<void>): Promise<Handles> {
  if (scope.state !== 'open') throw scopeClosed(scope.id)
  const ids = new Map(plan.map((planned) => [planned.label, parts.registry.nextId(scope)]))
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
  const work = create(parts, scope, entries, watched)
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

async function create(parts: EngineParts, scope: OwnedScope, entries: readonly Step[], watched: Promise<void>): Promise<Handles> {
  await watched
  const intents = entries.map(({ entry }) => ({ ...entry.intent, name: entry.name }))
  const survives = entries.some(({ entry }) => entry.kind.outlivesPower) ? 'power-cut' : 'crash'
  const [intended, recorded] = await Promise.allSettled([parts.ledger.intend(scope.id, intents, survives), scope.recorded])
  // Refused for certain. Any other error may be a lost answer: then the intents are on the books, and the close looks.
  if (intended.status === 'rejected' && isRefusal(intended.reason)) for (const { entry } of entries) scope.entries.delete(entry.intent.id)
  // The scope's own refusal says more than "no such scope".
  if (recorded.status === 'rejected') throw recorded.reason
  if (intended.status === 'rejected') throw intended.reason
  const handles = new Map<string, unknown>()
  for (const { planned, entry } of entries) {
    // The scope may have begun to close while the intents were written (G13).
    if (scope.state !== 'open') throw scopeClosed(scope.id)
    const made = make(parts, scope, { planned, entry }, handles)
    const created = await within(parts.clock, entry.kind.createBudgetMs ?? createBudgetMs, made)
    if (created.timedOut) throw new EbbError('launch_failed', `Creating ${entry.intent.kind} ${entry.name} took too long.`)
    entry.state = 'held'
    entry.handle = created.value.handle
    handles.set(planned.label, created.value.handle)
  }
  await parts.ledger.hold(
    entries.map(({ entry }) => ({
      resourceId: entry.intent.id,
      ...(entry.intent.detail !== undefined && { detail: entry.intent.detail }),
    })),
  )
  return handles
}

/** A closing scope, or books that take nothing: nothing was written. */
function isRefusal(error: unknown): boolean {
  return isEbbError(error, 'scope_closed') || takeNothing(error)
}

/** A lock that was never had, or a database that can only be read. */
function takeNothing(error: unknown): boolean {
  return isEbbError(error, 'ledger_busy') || isEbbError(error, 'ledger_read_only')
}

/** One resource. A close waits for it even when the launch no longer does: what is being made may still appear. */
async function make(parts: EngineParts, scope: OwnedScope, { planned, entry }: Step, handles: Handles): Promise<Created> {
  entry.isBeingMade = true
  const ctx: CreateCtx = {
    signal: scope.closing.signal,
    clock: parts.clock,
    live: planned.live,
    handle: (label) => handles.get(label),
    record: async (detail) => {
      adjust(entry, detail)
      await parts.ledger.record(entry.intent.id, detail, entry.kind.outlivesPower ? 'power-cut' : 'crash')
    },
  }
  const made = (async () => await entry.kind.create(entry.ref, planned.spec, ctx))()
  scope.creations.add(made)
  try {
    const created = await made
    if (created.detail !== undefined) adjust(entry, created.detail)
    return created
  } finally {
    entry.isBeingMade = false
    scope.creations.delete(made)
  }
}

/** A detail belongs to the resource's name from the moment the world told it. */
function adjust(entry: Entry, detail: unknown): void {
  Object.assign(entry.intent, { detail })
  entry.ref = entry.kind.name(entry.intent)
}

/** A launch is a transaction: on any failure its scope is closed with `launch-rollback`, proven, and the cause is told. */
export async function launch(parts: EngineParts, scope: OwnedScope, plan: readonly Planned[], watched: Promise<void>): Promise<Handles> {
  try {
    return await acquire(parts, scope, plan, watched)
  } catch (error) {
    // Nothing was made, and the books that could be told take nothing: there is nothing to roll back.
    if (takeNothing(error) && scope.entries.size === 0) {
      parts.registry.forget(scope.id)
      throw error
    }
    // What was given up because the scope closed says nothing of its own.
    const cause = scope.state === 'open' || error instanceof EbbError ? error : scopeClosed(scope.id)
    // Somebody closed it meanwhile: theirs is the wish that counts, and a rollback has nothing to add.
    const report = await (parts.operations.get(scope.id)?.report ?? close(parts, scope.id, { trigger: 'launch-rollback' }))
    throw rolledBack(cause, report)
  }
}

/** The report of a rollback that was not proven: to close once more at once would find the same. */
export function rollbackOf(error: unknown): Report | undefined {
  const report = isEbbError(error, 'launch_failed') ? (error.details as Report | undefined) : undefined
  return report?.success === false ? report : undefined
}

/** What was the matter, and what became of what had been made. A refusal that left nothing behind stays one. */
export function rolledBack(error: unknown, report: Report): EbbError {
  const isFailure = isEbbError(error, 'launch_failed')
  if (isFailure && error.details !== undefined) return error
  if (error instanceof EbbError && report.success && !isFailure) return error
  const told = sentence(error).replace(/\.$/, '')
  const what = isFailure ? told : `The launch failed${report.success ? ' and was rolled back' : ''}: ${told}`
  const left = report.success ? '' : ' What it had made could not all be removed; "ebb status" lists it.'
  return new EbbError('launch_failed', `${what}.${left}`, { cause: error, details: report })
}
