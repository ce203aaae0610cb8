import type { Proof } from '../../core/model/resource.ts'
import type { Clock } from '../../core/ports/clock.ts'
import type { Ctx, ResourceKind } from '../../core/ports/kind.ts'
import { type AwsCall, AwsProblem, isAwsTrouble } from './aws.ts'
import { problemOf } from './problem.ts'
import type { AwsTimes } from './times.ts'

/** Every call to AWS: bounded, repeated where that may help, and never two of them in the same rhythm. */

/** The slowest answer that we have reason to wait for; S3 and ECS answer in 20 to 500 ms. */
const callBudgetMs = 8_000

/**
 * Throttled, or without an answer: up to this many times in all, over about 3 s. Whoever looks or closes comes back by itself, so
 * longer patience would only hide that something is wrong. The SDK's own repetitions are off: they wait by timers of their own,
 * and neither the clock nor the end of a close reaches them.
 */
const mostAttempts = 5
const firstWaitMs = 100
const longestWaitMs = 2_000

export async function patiently<T>(
  operation: string,
  { signal, clock, letsAnswer }: AwsCall,
  ask: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  if (signal.aborted) throw gaveUp(operation)
  const caller = letsAnswer ? new AbortController().signal : signal
  for (let attempt = 1; ; attempt++) {
    try {
      return await bounded(operation, clock, caller, callBudgetMs, ask)
    } catch (error) {
      if (attempt > 1 && error instanceof AwsProblem) error.isCertain = false
      if (attempt === mostAttempts || !isAwsTrouble(error, 'throttled', 'unreachable')) throw error
      await waits(clock, jittered(attempt, firstWaitMs, longestWaitMs), signal)
      if (signal.aborted) throw error
    }
  }
}

/** One call, to its end, to the caller's, or to its own deadline, whatever comes first. */
export async function bounded<T>(
  operation: string,
  clock: Clock,
  caller: AbortSignal,
  budgetMs: number,
  ask: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  if (caller.aborted) throw gaveUp(operation)
  const call = new AbortController()
  const timer = new AbortController()
  const stopped = Promise.withResolvers<never>()
  const stop = (problem: AwsProblem): void => {
    call.abort(problem)
    stopped.reject(problem)
  }
  const leave = (): void => stop(gaveUp(operation))
  caller.addEventListener('abort', leave, { once: true })
  clock.after(budgetMs, timer.signal, () =>
    stop(new AwsProblem('unreachable', `AWS did not answer ${operation} within ${Math.round(budgetMs / 1_000)} s; it is tried again.`)),
  )
  try {
    return await Promise.race([ask(call.signal), stopped.promise])
  } catch (error) {
    throw problemOf(operation, error)
  } finally {
    stopped.promise.catch(() => {}) // Nobody listens to it any more.
    timer.abort()
    caller.removeEventListener('abort', leave)
  }
}

/** The only attempt was refused, or none was made: then there is nothing to be looked for. For calls that are let answer. */
export function isNotDone(error: unknown): boolean {
  return isAwsTrouble(error, 'refused', 'denied', 'credentials', 'aborted') && error.isCertain
}

function gaveUp(operation: string): AwsProblem {
  return new AwsProblem('aborted', `${operation} was not waited for any longer.`)
}

/** Doubling, and each time somewhere between the half and the whole of it: many that wait do not come back together. */
export function jittered(attempt: number, firstMs: number, longestMs: number): number {
  const whole = Math.min(longestMs, firstMs * 2 ** Math.min(attempt - 1, 20))
  return whole * (0.5 + Math.random() / 2)
}

/** Only ever between two attempts; ends early when nobody waits any more. */
export async function waits(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return
  const timer = new AbortController()
  let leave = (): void => {}
  await new Promise<void>((resolve) => {
    leave = resolve
    signal.addEventListener('abort', leave, { once: true })
    clock.after(ms, timer.signal, resolve)
  })
  timer.abort()
  signal.removeEventListener('abort', leave)
}

/** AWS tells nobody of an end, so it is looked for, in growing waits, until a look proves it. */
export async function seenGone<Ref>(
  kind: Pick<ResourceKind<unknown, Ref>, 'observe' | 'describe'>,
  ref: Ref,
  times: AwsTimes,
  ctx: Ctx,
): Promise<Proof> {
  for (let attempt = 1; !ctx.signal.aborted; attempt++) {
    const seen = await kind.observe(ref, ctx)
    if (seen.is === 'absent') return seen.proof
    await waits(ctx.clock, jittered(attempt, times.firstLookMs, times.longestLookMs), ctx.signal)
  }
  throw new Error(`${kind.describe(ref)} was not waited for any longer`)
}
