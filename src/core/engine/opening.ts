import type { IncarnationRecord, NewScope, Opening } from '../ports/ledger.ts'
import type { PreparedRow } from '../ports/prepared-row.ts'
import type { EngineParts } from './parts.ts'
import { scopeClosed } from './race.ts'
import type { OwnedScope } from './scope-registry.ts'

/**
 * A scope is opened in memory, and the ledger gets it with the first write that needs it: a launch writes the scopes that the ledger does
 * not have yet, the rows of the agent and the intents in one call, which is one transaction. So the number of transactions and of syncs to
 * the disk does not depend on what the caller awaits between opening and launching.
 */

/** The state of this process's own record in the ledger. */
export interface Registration {
  readonly record: IncarnationRecord
  /** Settles when the sentinel watches. Nothing may be written before (G1). */
  readonly watched: Promise<void>
  /** The explicit registration, if `begin` was called. Its error is the error of every later write. */
  recorded?: Promise<void>
}

/** Writes what `put` writes, with every scope of the path that the ledger does not have yet. Refused when the scope has begun to close. */
export async function writeOpening<T>(
  parts: EngineParts,
  registration: Registration,
  { scope, rows }: { readonly scope: OwnedScope; readonly rows: readonly PreparedRow[] },
  put: (opening: Opening) => Promise<T>,
): Promise<T> {
  await registration.watched
  await registration.recorded
  // Nothing is awaited between the check of the scope's state and the write. A close that begins later finds the write, and waits for it.
  if (scope.state !== 'open') throw scopeClosed(scope.id)
  const path = pathOf(parts, scope).filter(({ isRecorded }) => !isRecorded)
  const isRegistered = !path.some(({ kind }) => kind === 'host')
  const opening: Opening = { ...(!isRegistered && { incarnation: registration.record }), scopes: path.map(newScopeOf), rows }
  const written = put(opening)
  for (const member of path) member.recording = Promise.allSettled([member.recording, written])
  const answer = await written
  for (const member of path) member.isRecorded = true
  return answer
}

/** Writes the scope and the scopes above it that the ledger does not have yet. */
export async function record(
  parts: EngineParts,
  registration: Registration,
  scope: OwnedScope,
  rows: readonly PreparedRow[] = [],
): Promise<void> {
  if (scope.isRecorded && rows.length === 0) return
  await writeOpening(parts, registration, { scope, rows }, (opening) => parts.ledger.open(opening))
}

/** The scope and the scopes above it, parents first. */
function pathOf(parts: EngineParts, scope: OwnedScope): readonly OwnedScope[] {
  const parent = parts.registry.find(scope.parentId ?? '')
  return parent ? [...pathOf(parts, parent), scope] : [scope]
}

function newScopeOf({ id, kind, parentId, incarnation }: OwnedScope): NewScope {
  return { id, kind, parentId, incarnation }
}
