import type { Proof } from '../../core/model/resource.ts'
import type { Clock } from '../../core/ports/clock.ts'
import type { Ctx, KindName, ResourceKind } from '../../core/ports/kind.ts'
import { type AwsCall, AwsProblem, isAwsTrouble } from './aws.ts'
import { problemOf } from './problem.ts'
import type { AwsTimes } from './times.ts'

/** Timeouts, retries and backoff of the calls to AWS. The backoff is jittered, so that concurrent callers do not retry in step. */

/** The timeout of a call. S3 and ECS answer in 20 to 500 ms. */
const callBudgetMs = 8_000

/**
 * The maximum number of attempts of a call that is throttled or not answered, within about 3 s. An observation or a close repeats a failed
 * call later anyway, so more attempts would only hide the problem. The SDK's own retries are off, because they use real timers, which
 * neither the clock nor the end of a close can stop.
 */
const mostAttempts = 5
const firstWaitMs = 100
const longestWaitMs = 2_000

export async function withRetries<T>(
  operation: string,
  { signal, clock, letsAnswer }: AwsCall,
  ask: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  if (signal.aborted) throw aborted(operation)
  const caller = letsAnswer ? new AbortController().signal : signal
  for (let attempt = 1; ; attempt++) {
    try {
      return await bounded(operation, clock, caller, callBudgetMs, ask)
    } catch (error) {
      if (attempt > 1 && error instanceof AwsProblem) error.isCertain = false
      if (attempt === mostAttempts || !isAwsTrouble(error, 'throttled', 'unreachable')) throw error
      await delay(clock, jittered(attempt, firstWaitMs, longestWaitMs), signal)
      if (signal.aborted) throw error
    }
  }
}

/** Makes one call until it settles, the caller aborts, or its timeout passes. */
export async function bounded<T>(
  operation: string,
  clock: Clock,
  caller: AbortSignal,
  budgetMs: number,
  ask: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  if (caller.aborted) throw aborted(operation)
  const call = new AbortController()
  const timer = new AbortController()
  const stopped = Promise.withResolvers<never>()
  const stop = (problem: AwsProblem): void => {
    call.abort(problem)
    stopped.reject(problem)
  }
  const leave = (): void => stop(aborted(operation))
  caller.addEventListener('abort', leave, { once: true })
  clock.after(budgetMs, timer.signal, () =>
    stop(new AwsProblem('unreachable', `AWS did not answer ${operation} within ${Math.round(budgetMs / 1_000)} s; the call is retried.`)),
  )
  try {
    return await Promise.race([ask(call.signal), stopped.promise])
  } catch (error) {
    throw problemOf(operation, error)
  } finally {
    stopped.promise.catch(() => {}) // Swallowed: the call has settled, so a later abort has no effect.
    timer.abort()
    caller.removeEventListener('abort', leave)
  }
}

/** True when the only attempt of a call was refused, or none was sent: the call created nothing. For calls with `letsAnswer`. */
export function wasNotCarriedOut(error: unknown): boolean {
  return isAwsTrouble(error, 'refused', 'denied', 'credentials', 'aborted') && error.isCertain
}

function aborted(operation: string): AwsProblem {
  return new AwsProblem('aborted', `${operation} was aborted, because its caller no longer waits.`)
}

/** Exponential backoff, at a random point between half and all of the delay, so that waiting callers do not retry together. */
export function jittered(attempt: number, firstMs: number, longestMs: number): number {
  const whole = Math.min(longestMs, firstMs * 2 ** Math.min(attempt - 1, 20))
  return whole * (0.5 + Math.random() / 2)
}

/** Waits between two attempts. An abort ends the wait. */
export async function delay(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
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

/** Observes the resource with growing delays until its absence is proven, because AWS sends no event when a resource is gone. */
export async function untilAbsent<Ref>(
  kind: Pick<ResourceKind<KindName, Ref>, 'observe' | 'describe'>,
  ref: Ref,
  times: AwsTimes,
  ctx: Ctx,
): Promise<Proof> {
  for (let attempt = 1; !ctx.signal.aborted; attempt++) {
    const seen = await kind.observe(ref, ctx)
    if (seen.is === 'absent') return seen.proof
    await delay(ctx.clock, jittered(attempt, times.firstObserveDelayMs, times.longestObserveDelayMs), ctx.signal)
  }
  throw new Error(`the wait for the end of ${kind.describe(ref)} was aborted`)
}
