import { sentence } from '../domain/errors.ts'
import { type LadderStep, ladder } from '../domain/ladder.ts'
import type { ResourceReport, StepTaken } from '../domain/report.ts'
import { type Presence, type Proof, unknown } from '../domain/resource.ts'
import type { Clock } from '../ports/clock.ts'
import type { Ctx } from '../ports/kind.ts'
import type { Entry } from './book.ts'
import type { Flight } from './flight.ts'
import { backoffMs, noop, pause, within } from './race.ts'

/**
 * One resource from "may still be there" to "seen gone", or to an honest `stuck`. Released is only ever said after an
 * observation that says absent (G3); an observation that fails says unknown, and unknown is not acted upon (G4).
 */

export interface Release {
  readonly entry: Entry
  readonly flight: Flight
  readonly clock: Clock
}

export interface Released {
  readonly report: ResourceReport
  readonly gaveUp: readonly string[]
}

type End = Pick<ResourceReport, 'outcome'> & { proof?: Proof; error?: string; gaveUp?: readonly string[] }

/** Longest wait between two kills of something that will not go. */
const killPauseMs = 250

export async function release(job: Release): Promise<Released> {
  const { entry } = job
  const steps: StepTaken[] = []
  entry.attempts += 1
  entry.state = 'closing'
  const end = await settle(job, steps).catch((error: unknown): End => ({ outcome: 'stuck', error: sentence(error) }))
  if (end.outcome === 'stuck') entry.state = 'stuck'
  else if (end.outcome !== 'held-back') entry.state = 'released'
  if (end.proof) entry.proof = end.proof
  if (end.error === undefined) delete entry.error
  else entry.error = end.error
  const { gaveUp = [], ...rest } = end
  return { report: { kind: entry.intent.kind, name: entry.name, steps, ...rest }, gaveUp }
}

async function settle(job: Release, steps: StepTaken[]): Promise<End> {
  const first = await lookUntilKnown(job)
  if (first.is === 'absent') return { outcome: 'released', proof: first.proof }
  if (first.is === 'unknown') return { outcome: 'stuck', error: first.reason }

  const unmet = await meetObligations(job)
  if (unmet.length > 0 && !job.flight.policy.force) return { outcome: 'held-back', error: unmet.join('; ') }

  const last = await climb(job, steps)
  if (last.is === 'unknown') return { outcome: 'stuck', error: last.reason }
  if (last.is === 'present') return { outcome: 'stuck', error: `Still present: ${last.detail ?? job.entry.name}` }
  return { outcome: unmet.length > 0 ? 'given-up' : 'released', proof: last.proof, gaveUp: unmet }
}

/** Gentle steps once each, as far as the wish still allows them; then kill until it is gone or the deadline has come. */
async function climb(job: Release, steps: StepTaken[]): Promise<Presence> {
  const known = job.entry.kind.steps(job.entry.ref)
  for (const step of known) {
    const rung = ladder(job.flight.policy, known).find((candidate) => candidate.step === step)
    if (!rung || step === 'kill') continue
    const end = await take(job, step, rung.budgetMs, steps)
    if (end.is !== 'present') return end
  }
  for (let attempt = 1; ; attempt++) {
    const end = await take(job, 'kill', job.flight.remainingMs(), steps)
    if (end.is !== 'present' || job.flight.remainingMs() === 0) return end
    await pause(job.clock, Math.min(backoffMs(attempt, killPauseMs), job.flight.remainingMs()), job.flight.changed)
  }
}

/** One step: do it, wait for the exit, the budget or a stronger wish, then look. */
async function take(job: Release, step: LadderStep, budgetMs: number, steps: StepTaken[]): Promise<Presence> {
  const { entry, flight, clock } = job
  const startedMs = clock.now()
  const at = clock.wall()
  const untilMs = startedMs + Math.min(budgetMs, flight.remainingMs())
  const lifetime = new AbortController()
  const ctx: Ctx = { signal: lifetime.signal, clock }
  let problem: string | undefined
  try {
    const effect = await within(clock, untilMs - clock.now(), entry.kind.release(entry.ref, step, ctx))
    const exhausted = effect.timedOut ? undefined : effect.value.exhausted
    const over = entry.kind.gone(entry.ref, ctx).then(noop)
    // A failing `gone` must not end the wait early on its own account: the look afterwards decides.
    const ended = Promise.race(exhausted ? [over, exhausted] : [over]).catch((error: unknown) => {
      problem = sentence(error)
    })
    await waitFor(job, step, untilMs, ended)
  } catch (error) {
    problem = sentence(error)
  } finally {
    lifetime.abort()
  }
  note(steps, { step, at, took: Math.round((clock.now() - startedMs) * 10) / 10 })
  const seen = await lookUntilKnown(job)
  return seen.is === 'present' && problem !== undefined ? { is: 'present', detail: problem } : seen
}

/** Waits for the event until the budget is used up; a wish that becomes force ends every gentle step at once (G6). */
async function waitFor(job: Release, step: LadderStep, untilMs: number, ended: Promise<void>): Promise<void> {
  for (;;) {
    if (step !== 'kill' && job.flight.policy.force) return
    const leftMs = Math.min(untilMs - job.clock.now(), job.flight.remainingMs())
    const changed = job.flight.changed.then(() => 'changed' as const)
    const winner = await within(job.clock, leftMs, Promise.race([ended.then(() => 'ended' as const), changed]))
    if (winner.timedOut || winner.value === 'ended') return
  }
}

/** Repeated kills are one step in the report, with the time they took together. */
function note(steps: StepTaken[], taken: StepTaken): void {
  const previous = steps.at(-1)
  if (previous?.step === taken.step) steps[steps.length - 1] = { ...previous, took: previous.took + taken.took }
  else steps.push(taken)
}

async function lookUntilKnown(job: Release): Promise<Presence> {
  for (let attempt = 1; ; attempt++) {
    const seen = await look(job)
    if (seen.is !== 'unknown' || job.flight.remainingMs() === 0) return seen
    await pause(job.clock, Math.min(backoffMs(attempt), job.flight.remainingMs()), job.flight.changed)
  }
}

/** Even at the deadline one look is worth its time: this is the least it gets. */
const lastLookMs = 1_000

async function look(job: Release): Promise<Presence> {
  const lifetime = new AbortController()
  try {
    const observed = job.entry.kind.observe(job.entry.ref, { signal: lifetime.signal, clock: job.clock })
    const seen = await within(job.clock, Math.max(lastLookMs, job.flight.remainingMs()), observed)
    return seen.timedOut ? unknown('the look at it did not come back in time') : seen.value
  } catch (error) {
    return unknown(sentence(error))
  } finally {
    lifetime.abort()
  }
}

/** Each obligation is tried until it is met or the deadline has come; a failure holds the resource back (G8). */
async function meetObligations(job: Release): Promise<readonly string[]> {
  const { entry, flight, clock } = job
  const owed = entry.kind.obligations?.(entry.ref, flight.policy) ?? []
  const unmet: string[] = []
  for (const obligation of owed) {
    const lifetime = new AbortController()
    try {
      const work = entry.kind.meet?.(obligation, entry.ref, { signal: lifetime.signal, clock })
      const met = await within(clock, flight.remainingMs(), work ?? Promise.resolve())
      if (met.timedOut) unmet.push(`${obligation} of ${entry.name} was not done in time`)
    } catch (error) {
      unmet.push(`${obligation} of ${entry.name} failed: ${sentence(error)}`)
    } finally {
      lifetime.abort()
    }
  }
  return unmet
}
