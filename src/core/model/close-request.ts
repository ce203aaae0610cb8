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

/** The request of a close. It is stored together with the state `closing`, so that a recovery continues with it (G6). */
export interface CloseRequest {
  readonly trigger: Trigger
  /** Skips `polite` and `terminate`, and gives up obligations that cannot be met in time. */
  readonly force?: boolean
  /** Obligations that cannot be met in time are given up, as with `force`, but the gentle steps are still taken. */
  readonly givesUp?: boolean
  /** True deletes rows, logs and archives, too. */
  readonly forget?: boolean
  /** True deletes logs and archives. Rows and the record of the scope stay. */
  readonly dropLogs?: boolean
  /** The time for `polite` and `terminate` together. */
  readonly graceMs?: number
  /** How long the whole close may take. A resource that is still there by then is `stuck`. */
  readonly deadlineMs?: number
}

/** How a close proceeds: which steps it takes, how long it may take, and what it keeps. */
export interface Policy {
  readonly firstStep: LadderStep
  readonly graceMs: number
  readonly deadlineMs: number
  /** True: logs are archived. False: they are deleted. */
  readonly keepsLogs: boolean
  /**
   * True: an obligation that cannot be met by the deadline is given up, and the report names it. False: it holds its resource back (G8).
   */
  readonly givesUp: boolean
}

/** The time for kills before a resource is called `stuck`. 1,000 processes take 90 ms; a failing disk takes seconds. */
const killBudgetMs = 10_000

/**
 * The part of a deadline that is reserved for the kill and its proof, so that grace never uses up all of the deadline. Of a deadline under
 * twice this time, half is reserved.
 */
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

/** True when rows, logs and archive are deleted, too: because the request says so, or because its trigger implies it. */
export function forgets(closeRequest: CloseRequest): boolean {
  return closeRequest.forget === true || !defaults[closeRequest.trigger].keepsLogs
}

/** True when logs and archive are deleted, whether or not the rows stay. */
export function dropsLogs(closeRequest: CloseRequest): boolean {
  return closeRequest.dropLogs === true || forgets(closeRequest)
}

/** The requested grace, or the default of the trigger: an exit allows less time than a stop. */
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

/** Combines two requests: force, deletion and the earlier deadline win (G6). The trigger stays that of `current`. */
export function strengthen(current: CloseRequest, next: CloseRequest): CloseRequest {
  // Deletion is stated explicitly in the result, because the trigger that implies it may not be the one that is kept.
  const forget = forgets(current) || forgets(next)
  return {
    trigger: current.trigger,
    ...((current.force || next.force) && { force: true }),
    ...((current.givesUp || next.givesUp) && { givesUp: true }),
    ...(forget && { forget }),
    ...((current.dropLogs || next.dropLogs) && { dropLogs: true }),
    graceMs: Math.min(graceOf(current), graceOf(next)),
    ...earlierDeadline(current.deadlineMs, next.deadlineMs),
  }
}

/**
 * The request of a new close of a scope that may have been closing before: the trigger is the new one, and everything else is the stronger
 * of the two.
 */
export function renew(stored: CloseRequest | undefined, next: CloseRequest): CloseRequest {
  return stored ? { ...strengthen(stored, next), trigger: next.trigger } : next
}

/**
 * Drops the deadline of an earlier close, because it applied to that close only. A recovery, for example, has more time than the exit
 * before it.
 */
export function withoutDeadline(stored: CloseRequest | undefined): CloseRequest | undefined {
  if (stored?.deadlineMs === undefined) return stored
  const { deadlineMs: _ended, ...closeRequest } = stored
  return closeRequest
}

function earlierDeadline(a: number | undefined, b: number | undefined): Pick<CloseRequest, 'deadlineMs'> {
  if (a === undefined && b === undefined) return {}
  return { deadlineMs: Math.min(a ?? Number.POSITIVE_INFINITY, b ?? Number.POSITIVE_INFINITY) }
}
