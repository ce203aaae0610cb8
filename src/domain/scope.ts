import { forgets, graceOf, type Trigger } from './policy.ts'

/** The owner of resources, in a tree: host → namespace → request or task → agent. */
export type ScopeKind = 'host' | 'namespace' | 'request' | 'task' | 'agent'

export type ScopeState = 'open' | 'closing' | 'closed'

/** What a close was asked to do; stored with `closing`, so that a recovery carries on with it (G6). */
export interface Wish {
  readonly trigger: Trigger
  /** Skips polite and terminate. */
  readonly force?: boolean
  /** Obligations that cannot be met in time are given up, as by force, but only after the gentle steps. */
  readonly givesUp?: boolean
  /** Rows, logs and archive go too. */
  readonly forget?: boolean
  /** Logs and archive go; rows and the record of the scope stay. */
  readonly dropLogs?: boolean
  /** Polite and terminate together. */
  readonly graceMs?: number
  /** How long the whole close may take before what is left is `stuck`. */
  readonly deadlineMs?: number
}

export interface Scope {
  readonly id: string
  readonly kind: ScopeKind
  readonly parentId: string | undefined
  readonly incarnation: string
  readonly state: ScopeState
  readonly wish: Wish | undefined
}

/** The stronger wish wins: force, deletion and the earlier deadline (G6). */
export function strengthen(current: Wish, next: Wish): Wish {
  // Said outright in the result: the reason that implied it may not be the one that is kept.
  const forget = forgets(current) || forgets(next)
  return {
    trigger: current.trigger,
    ...((current.force || next.force) && { force: true }),
    ...((current.givesUp || next.givesUp) && { givesUp: true }),
    ...(forget && { forget }),
    ...((current.dropLogs || next.dropLogs) && { dropLogs: true }),
    graceMs: Math.min(graceOf(current), graceOf(next)),
    ...least(current.deadlineMs, next.deadlineMs),
  }
}

/** A close asked for anew, of a scope that may have been closing before: for the new reason, with the stronger wish. */
export function renew(stored: Wish | undefined, next: Wish): Wish {
  return stored ? { ...strengthen(stored, next), trigger: next.trigger } : next
}

/** Of a close that is over, as seen by the next one: the time it had was its own. A recovery has not the hurry of the exit before it. */
export function withoutHurry(stored: Wish | undefined): Wish | undefined {
  if (stored?.deadlineMs === undefined) return stored
  const { deadlineMs: _over, ...wish } = stored
  return wish
}

function least(a: number | undefined, b: number | undefined): Pick<Wish, 'deadlineMs'> {
  if (a === undefined && b === undefined) return {}
  return { deadlineMs: Math.min(a ?? Number.POSITIVE_INFINITY, b ?? Number.POSITIVE_INFINITY) }
}
