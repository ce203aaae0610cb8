import { advised, sentence } from '../model/errors.ts'
import { type LadderStep, ladder } from '../model/ladder.ts'
import type { ResourceReport, StepTaken } from '../model/report.ts'
import { type Presence, type Proof, unknown } from '../model/resource.ts'
import type { Clock } from '../ports/clock.ts'
import type { Ctx } from '../ports/kind.ts'
import type { CloseOperation } from './close-operation.ts'
import type { Track } from './progress.ts'
import { backoffMs, noLongerNeeded, noop, pause, within } from './race.ts'
import type { Entry } from './scope-registry.ts'

/**
 * One resource from "may still be there" to "seen gone", or to an honest `stuck`. Released is only ever said after an
 * observation that says absent (G3); an observation that fails says unknown, and unknown is not acted upon (G4).
 */

export interface Release {
  readonly entry: Entry
  readonly operation: CloseOperation
  readonly clock: Clock
  /** Where it is written down how far it has come. */
  readonly track: Track
  /** Told when the kill was asked for, however that went. */
  readonly onAsked?: () => void
}

/** A release under way. */
interface Job extends Release {
  readonly startedMs: number
}

/** Until the close's deadline; where nobody set one, as long as the thing takes by its nature to go, counted from its own turn. */
function remainingMs({ entry, operation, clock, startedMs }: Job): number {
  const patienceMs = operation.isPatient ? (entry.kind.patienceMs?.(entry.ref) ?? 0) : 0
  return Math.max(operation.remainingMs(), startedMs + patienceMs - clock.now())
}

export interface Released {
  readonly report: ResourceReport
  readonly gaveUp: readonly string[]
}

type End = Pick<ResourceReport, 'outcome'> & { proof?: Proof; error?: string; gaveUp?: readonly string[] }

/** Absent now proves nothing about something whose creation is still under way. */
const stillBeingMade: End = { outcome: 'stuck', error: 'Its creation has not come back yet, so it may still appear.' }

/** How long the first kill may take before it is repeated, then twice that, and so on: a kill can get lost. */
const killPatienceMs = 500

/** A look that takes longer is lost; another one may not be. */
const lookPatienceMs = 5_000

export async function release(asked: Release): Promise<Released> {
  const job: Job = { ...asked, startedMs: asked.clock.now() }
  const { entry, track } = job
  track.begin()
  entry.attempts += 1
  entry.state = 'closing'
  const settled = await settle(job, track.steps).catch((error: unknown): End => ({ outcome: 'stuck', error: sentence(error) }))
  const end = entry.isBeingMade && settled.proof ? stillBeingMade : settled
  if (end.outcome === 'stuck') entry.state = 'stuck'
  else if (end.outcome !== 'held-back') entry.state = 'released'
  if (end.proof) entry.proof = end.proof
  if (end.error === undefined) delete entry.error
  else entry.error = end.error
  const { gaveUp = [], ...rest } = end
  const notes = entry.notes.size > 0 ? { notes: [...entry.notes] } : {}
  return { report: track.end({ ...rest, ...notes }), gaveUp }
}

async function settle(job: Job, steps: StepTaken[]): Promise<End> {
  const first = await lookUntilKnown(job)
  if (first.is === 'absent') return over(job, first.proof)
  if (first.is === 'unknown') return { outcome: 'stuck', error: first.reason }

  const unmet = [...(await meetObligations(job)), ...(await requireRecord(job))]
  if (unmet.length > 0 && !job.operation.policy.givesUp && !isOverdue(job)) return { outcome: 'held-back', error: unmet.join('; ') }

  job.entry.gaveUp = unmet
  // What was owed may have used up all the patience there was for it to go.
  const last = await climb({ ...job, startedMs: job.clock.now() }, steps)
  if (last.is === 'unknown') return { outcome: 'stuck', error: last.reason }
  if (last.is === 'present') return { outcome: 'stuck', error: `Still present: ${last.detail ?? job.entry.name}` }
  return over(job, last.proof)
}

/** Some things are not owed for ever: after that long they are given up as by force, and the report names them (G8). */
function isOverdue({ entry, clock }: Job): boolean {
  entry.owedSince ??= clock.wall()
  const afterMs = entry.kind.givesUpAfterMs?.(entry.ref)
  return afterMs !== undefined && Date.parse(clock.wall()) - Date.parse(entry.owedSince) >= afterMs
}

/** What was given up is named when the thing is seen gone, even if an earlier close did it and could not see it (G8). */
function over({ entry: { gaveUp } }: Job, proof: Proof): End {
  return gaveUp.length > 0 ? { outcome: 'given-up', proof, gaveUp } : { outcome: 'released', proof }
}

/** Gentle steps once each, as far as the wish still allows them; then kill until it is gone or the deadline has come. */
async function climb(job: Job, steps: StepTaken[]): Promise<Presence> {
  const known = job.entry.kind.steps(job.entry.ref)
  for (const step of known) {
    // Asked anew whenever the wish changes: a joined close may leave less time, or none (G6).
    const budgetMs = (): number => ladder(job.operation.policy, known).find((rung) => rung.step === step)?.budgetMs ?? 0
    if (step === 'kill' || budgetMs() === 0) continue
    const end = await take(job, step, budgetMs, steps)
    if (end.is !== 'present') return end
  }
  let problem: string | undefined
  for (let attempt = 1; ; attempt++) {
    const end = await take(job, 'kill', () => killPatienceMs * 2 ** (attempt - 1), steps)
    if (end.is !== 'present') return end
    // The last attempt may have had no time to find out; why it does not go was known before.
    problem = end.problem ?? problem
    if (remainingMs(job) === 0) return problem === undefined ? end : { is: 'present', detail: problem }
    await pause(job.clock, Math.min(backoffMs(attempt), remainingMs(job)), job.operation.changed)
  }
}

/** What was seen after a step, and why the step did not work, where it said so. */
type Taken = Presence & { readonly problem?: string }

/** One step: do it, wait for the exit, the budget or a stronger wish, then look. */
async function take(job: Job, step: LadderStep, budgetMs: () => number, steps: StepTaken[]): Promise<Taken> {
  const { entry, clock } = job
  const startedMs = clock.now()
  const at = clock.wall()
  const untilMs = (): number => startedMs + budgetMs()
  const lifetime = new AbortController()
  const ctx: Ctx = { signal: lifetime.signal, clock }
  let problem: string | undefined
  job.track.to(step)
  try {
    let exhausted: Promise<void> | undefined
    const asked = entry.kind.release(entry.ref, step, ctx).then((effect) => {
      exhausted = effect.exhausted
    })
    await waitFor(job, untilMs, asked).finally(() => step === 'kill' && job.onAsked?.())
    const gone = entry.kind.gone(entry.ref, ctx).then(noop)
    await waitFor(job, untilMs, exhausted ? Promise.race([gone, exhausted]) : gone)
  } catch (error) {
    problem = sentence(error)
  } finally {
    lifetime.abort(noLongerNeeded)
  }
  note(steps, { step, at, took: Math.round((clock.now() - startedMs) * 10) / 10 })
  const seen = await lookUntilKnown(job)
  return seen.is === 'present' && problem !== undefined ? { ...seen, problem } : seen
}

/** Waits for the event until the budget is used up, which a stronger wish may shorten at any time (G6). */
async function waitFor(job: Job, untilMs: () => number, ended: Promise<void>): Promise<void> {
  ended.catch(noop) // With no time left nobody hears it fail.
  for (;;) {
    const leftMs = Math.min(untilMs() - job.clock.now(), remainingMs(job))
    const changed = job.operation.changed.then(() => 'changed' as const)
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

async function lookUntilKnown(job: Job): Promise<Presence> {
  job.track.to('looking')
  // Patience is for what is seen to go, not for an answer that does not come.
  const untilMs = job.clock.now() + Math.max(job.operation.remainingMs(), Math.min(remainingMs(job), answerPatienceMs))
  for (let attempt = 1; ; attempt++) {
    const seen = await look(job)
    const waits = seen.is === 'unknown' && seen.settles
    const leftMs = waits ? remainingMs(job) : Math.min(remainingMs(job), untilMs - job.clock.now())
    if (seen.is !== 'unknown' || leftMs <= 0) return seen
    await pause(job.clock, Math.min(backoffMs(attempt), leftMs), job.operation.changed)
  }
}

/** In the middle of a long wait one call that fails is not the end of it. */
const answerPatienceMs = 10_000

/** Even at the deadline one look is worth its time: this is the least it gets. */
const lastLookMs = 1_000

async function look(job: Job): Promise<Presence> {
  const lifetime = new AbortController()
  try {
    const observed = job.entry.kind.observe(job.entry.ref, { signal: lifetime.signal, clock: job.clock })
    const seen = await within(job.clock, Math.max(lastLookMs, Math.min(lookPatienceMs, remainingMs(job))), observed)
    return seen.timedOut ? unknown(unanswered(job.entry)) : seen.value
  } catch (error) {
    return unknown(sentence(error))
  } finally {
    lifetime.abort(noLongerNeeded)
  }
}

/** Which one it is stands beside it, wherever it is told. */
function unanswered({ intent: { kind } }: Entry): string {
  return `The look at this ${kind} got no answer in time, so it is not known whether it is still there.`
}

/** What is owed and could not be done: it holds the resource back, or is given up by force (G8). */
async function meetObligations(job: Job): Promise<readonly string[]> {
  const { entry, operation, clock } = job
  const due = owed(entry, operation)
  if (due.length === 0) return []
  const unmet: string[] = []
  const startedMs = clock.now()
  const done = job.track.owes()
  for (const obligation of due) {
    const problem = await meet(job, obligation)
    if (problem !== undefined) unmet.push(problem)
  }
  done(Math.round((clock.now() - startedMs) * 10) / 10)
  return unmet
}

/** Why something that could be kept must not be dropped yet. */
export const unrecorded = 'the ledger has not recorded the request to drop it'

/**
 * What a deletion drops instead of keeping goes only when the ledger has the request. Otherwise a supervisor that is killed now
 * leaves a successor that keeps the agent and finds its log gone (G8, G9). A kill does not wait for this (G12): processes owe nothing.
 */
async function requireRecord(job: Job): Promise<readonly string[]> {
  const { entry, operation, clock } = job
  const kept = entry.kind.obligations?.(entry.ref, { ...operation.policy, keepsLogs: true }) ?? []
  const dropped = kept.filter((obligation) => !owed(entry, operation).includes(obligation))
  if (dropped.length === 0) return []
  const budgetMs = operation.isPatient ? remainingMs(job) : operation.obligationsMs()
  return (await recordedInTime(clock, operation, Math.max(leastTryMs, budgetMs)))
    ? []
    : [`${dropped.join(', ')} of ${entry.name}: ${unrecorded}`]
}

export async function recordedInTime(clock: Clock, operation: CloseOperation, budgetMs: number): Promise<boolean> {
  const recorded = await within(clock, budgetMs, operation.isRecorded())
  return !recorded.timedOut && recorded.value
}

function owed(entry: Entry, operation: CloseOperation): readonly string[] {
  return entry.kind.obligations?.(entry.ref, operation.policy) ?? []
}

/** Without force once, because it holds back and is tried again later; by force again and again, because then it is lost. */
async function meet(job: Job, obligation: string): Promise<string | undefined> {
  let reason: string | undefined
  for (let attempt = 1; ; attempt++) {
    const problem = await meetOnce(job, obligation)
    if (problem === undefined) return undefined
    // The last try may have had no time to find out; why it cannot be done was known before.
    if (!problem.endsWith(notInTime)) reason = problem
    if (!job.operation.policy.givesUp || job.operation.obligationsMs() === 0) return reason ?? problem
    await pause(job.clock, Math.min(backoffMs(attempt), job.operation.obligationsMs()), job.operation.changed)
  }
}

const notInTime = 'was not done in time'

/** What others of the close have used up all the time for gets one try all the same: an upload must not cost the archive (G8). */
const leastTryMs = 1_000

async function meetOnce(job: Job, obligation: string): Promise<string | undefined> {
  const { entry, operation, clock } = job
  const lifetime = new AbortController()
  try {
    const note = (text: string): void => void entry.notes.add(text)
    const work = entry.kind.meet?.(obligation, entry.ref, { signal: lifetime.signal, clock, note }) ?? Promise.resolve()
    for (;;) {
      const changed = operation.changed.then(() => 'changed' as const)
      const budgetMs = Math.max(leastTryMs, operation.isPatient ? remainingMs(job) : operation.obligationsMs())
      const met = await within(clock, budgetMs, Promise.race([work, changed]))
      if (met.timedOut) return `${obligation} of ${entry.name} ${notInTime}`
      if (met.value !== 'changed') return undefined
      // A deletion that joined wants nothing kept: it does not wait for the keeping (G6).
      if (!owed(entry, operation).includes(obligation)) return undefined
    }
  } catch (error) {
    return `${obligation} of ${entry.name} failed: ${advised(error)}`
  } finally {
    lifetime.abort(noLongerNeeded)
  }
}
