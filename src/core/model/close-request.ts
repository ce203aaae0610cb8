import type { LadderStep } from './ladder.ts'

/** Why a scope is being closed. */
export const triggers = [
  'completed',
  'terminated',
  'deleted',
  'request-finished',
  'process-exit',
  'test-reset',
  'launch-rollback',
  'reaper',
  'recovery',
] as const
export type Trigger = (typeof triggers)[number]

/** What a close was asked to do; stored with `closing`, so that a recovery carries on with it (G6). */
export interface CloseRequest {
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

/** How a close goes about it: which steps, how long, and what is kept. */
export interface Policy {
  readonly firstStep: LadderStep
  readonly graceMs: number
  readonly deadlineMs: number
  /** Logs are archived; otherwise they are deleted. */
  readonly keepsLogs: boolean
  /** What is owed and cannot be met is given up at the deadline, and named; otherwise it holds back (G8). */
  readonly givesUp: boolean
}

/** What a kill may take before we say `stuck`: 1,000 processes take 90 ms, a dying disk takes seconds. */
const killBudgetMs = 10_000

/** Of a deadline so much is left to the kill and its proof, or half of it when it is short: grace never uses up all of it. */
const killReserveMs = 1_000

const defaults: Record<Trigger, { firstStep: LadderStep; graceMs: number; keepsLogs: boolean }> = {
  completed: { firstStep: 'terminate', graceMs: 5_000, keepsLogs: true },
  terminated: { firstStep: 'polite', graceMs: 5_000, keepsLogs: true },
  deleted: { firstStep: 'polite', graceMs: 5_000, keepsLogs: false },
  'request-finished': { firstStep: 'polite', graceMs: 5_000, keepsLogs: true },
  'process-exit': { firstStep: 'terminate', graceMs: 2_000, keepsLogs: true },
  'test-reset': { firstStep: 'polite', graceMs: 5_000, keepsLogs: false },
  'launch-rollback': { firstStep: 'terminate', graceMs: 1_000, keepsLogs: false },
  reaper: { firstStep: 'polite', graceMs: 5_000, keepsLogs: true },
  recovery: { firstStep: 'kill', graceMs: 0, keepsLogs: true },
}

/** Do rows, logs and archive go too: because it was said, or because of what the close is for? */
export function forgets(closeRequest: CloseRequest): boolean {
  return closeRequest.forget === true || !defaults[closeRequest.trigger].keepsLogs
}

/** Do logs and archive go, whatever becomes of the rows? */
export function dropsLogs(closeRequest: CloseRequest): boolean {
  return closeRequest.dropLogs === true || forgets(closeRequest)
}

/** What was said, or what the reason implies: an exit hurries more than a stop. */
export function graceOf(closeRequest: CloseRequest): number {
  return closeRequest.graceMs ?? defaults[closeRequest.trigger].graceMs
}

export function policyFor(closeRequest: CloseRequest): Policy {
  const base = defaults[closeRequest.trigger]
  const force = closeRequest.force ?? false
  const graceMs = force ? 0 : graceOf(closeRequest)
  const deadlineMs = closeRequest.deadlineMs ?? graceMs + killBudgetMs
  return {
    firstStep: force ? 'kill' : base.firstStep,
    graceMs: Math.min(graceMs, Math.max(deadlineMs / 2, deadlineMs - killReserveMs)),
    deadlineMs,
    keepsLogs: !dropsLogs(closeRequest),
    givesUp: force || closeRequest.givesUp === true,
  }
}

/** The stronger wish wins: force, deletion and the earlier deadline (G6). */
export function strengthen(current: CloseRequest, next: CloseRequest): CloseRequest {
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
export function renew(stored: CloseRequest | undefined, next: CloseRequest): CloseRequest {
  return stored ? { ...strengthen(stored, next), trigger: next.trigger } : next
}

/** Of a close that is over, as seen by the next one: the time it had was its own. A recovery has not the hurry of the exit before it. */
export function withoutHurry(stored: CloseRequest | undefined): CloseRequest | undefined {
  if (stored?.deadlineMs === undefined) return stored
  const { deadlineMs: _over, ...closeRequest } = stored
  return closeRequest
}

function least(a: number | undefined, b: number | undefined): Pick<CloseRequest, 'deadlineMs'> {
  if (a === undefined && b === undefined) return {}
  return { deadlineMs: Math.min(a ?? Number.POSITIVE_INFINITY, b ?? Number.POSITIVE_INFINITY) }
}
