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
 * Releases one resource. The resource counts as released only after an observation that says absent (G3). An observation that fails says
 * unknown, and no step is taken on an unknown resource (G4). A resource that is neither released nor held back becomes `stuck`.
 */

export interface Release {
  readonly entry: Entry
  readonly operation: CloseOperation
  readonly clock: Clock
  /** Records the progress of the release. */
  readonly track: Track
  /** Called when the kill has been requested, even if the request failed. */
  readonly onKillRequested?: () => void
}

/** A running release. */
interface Job extends Release {
  readonly startedMs: number
}

/**
 * The time until the close's deadline. A patient close gives each resource its kind's patience, counted from the start of its own release.
 */
function remainingMs({ entry, operation, clock, startedMs }: Job): number {
  const patienceMs = operation.isPatient ? (entry.kind.patienceMs?.(entry.ref) ?? 0) : 0
  return Math.max(operation.remainingMs(), startedMs + patienceMs - clock.now())
}

export interface Released {
  readonly report: ResourceReport
  readonly gaveUp: readonly string[]
}

type End = Pick<ResourceReport, 'outcome'> & { proof?: Proof; error?: string; gaveUp?: readonly string[] }

/** The outcome for a resource that is still being created, because an observation says nothing about such a resource. */
const stillBeingCreated: End = { outcome: 'stuck', error: 'Its creation has not finished yet, so it may still appear.' }

/** How long the first kill may take before it is repeated, because a kill can get lost. The time doubles with each repetition. */
const killPatienceMs = 500

/** The time limit of one observation. An observation without an answer by then is repeated. */
const observationBudgetMs = 5_000

export async function release(request: Release): Promise<Released> {
  const job: Job = { ...request, startedMs: request.clock.now() }
  const { entry, track } = job
  track.begin()
  entry.attempts += 1
  entry.state = 'closing'
  const settled = await settle(job, track.steps).catch((error: unknown): End => ({ outcome: 'stuck', error: sentence(error) }))
  const end = entry.isBeingCreated && settled.proof ? stillBeingCreated : settled
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
  const first = await observeUntilKnown(job)
  if (first.is === 'absent') return released(job, first.proof)
  if (first.is === 'unknown') return { outcome: 'stuck', error: first.reason }

  const unmet = [...(await meetObligations(job)), ...(await requireRecord(job))]
  if (unmet.length > 0 && !job.operation.policy.givesUp && !isOverdue(job)) return { outcome: 'held-back', error: unmet.join('; ') }

  job.entry.gaveUp = unmet
  // The obligations may have used up the patience of the kind, so the patience starts again.
  const last = await climb({ ...job, startedMs: job.clock.now() }, steps)
  if (last.is === 'unknown') return { outcome: 'stuck', error: last.reason }
  if (last.is === 'present') return { outcome: 'stuck', error: `Still present: ${last.detail ?? job.entry.name}` }
  return released(job, last.proof)
}

/**
 * True when an obligation has been owed for as long as its kind allows. The obligation is then given up as by force, and the report names
 * it (G8).
 */
function isOverdue({ entry, clock }: Job): boolean {
  entry.owedSince ??= clock.wall()
  const afterMs = entry.kind.givesUpAfterMs?.(entry.ref)
  return afterMs !== undefined && Date.parse(clock.wall()) - Date.parse(entry.owedSince) >= afterMs
}

/**
 * The outcome for a resource that is gone. It names the obligations that were given up, even if an earlier close gave them up and could not
 * observe the end (G8).
 */
function released({ entry: { gaveUp } }: Job, proof: Proof): End {
  return gaveUp.length > 0 ? { outcome: 'given-up', proof, gaveUp } : { outcome: 'released', proof }
}

/**
 * Takes each gentle step on a resource once, as far as the request still allows it. Then kills until the resource is gone or the deadline
 * has come.
 */
async function climb(job: Job, steps: StepTaken[]): Promise<Presence> {
  const known = job.entry.kind.steps(job.entry.ref)
  for (const step of known) {
    // The budget is computed anew at every use, because a request that joins may leave less time, or none (G6).
    const budgetMs = (): number => ladder(job.operation.policy, known).find((rung) => rung.step === step)?.budgetMs ?? 0
    if (step === 'kill' || budgetMs() === 0) continue
    const end = await takeStep(job, step, budgetMs, steps)
    if (end.is !== 'present') return end
  }
  let problem: string | undefined
  for (let attempt = 1; ; attempt++) {
    const end = await takeStep(job, 'kill', () => killPatienceMs * 2 ** (attempt - 1), steps)
    if (end.is !== 'present') return end
    // The last kill may have had no time to fail, so the error of an earlier kill is kept.
    problem = end.problem ?? problem
    if (remainingMs(job) === 0) return problem === undefined ? end : { is: 'present', detail: problem }
    await pause(job.clock, Math.min(backoffMs(attempt), remainingMs(job)), job.operation.changed)
  }
}

/** The observation after a step, and why the step failed, if it threw an error. */
type AfterStep = Presence & { readonly problem?: string }

/** Takes one step, waits for the exit, the budget or a stronger request, and then observes. */
async function takeStep(job: Job, step: LadderStep, budgetMs: () => number, steps: StepTaken[]): Promise<AfterStep> {
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
    const requested = entry.kind.release(entry.ref, step, ctx).then((effect) => {
      exhausted = effect.exhausted
    })
    await waitFor(job, untilMs, requested).finally(() => step === 'kill' && job.onKillRequested?.())
    const gone = entry.kind.gone(entry.ref, ctx).then(noop)
    await waitFor(job, untilMs, exhausted ? Promise.race([gone, exhausted]) : gone)
  } catch (error) {
    problem = sentence(error)
  } finally {
    lifetime.abort(noLongerNeeded)
  }
  addStep(steps, { step, at, took: Math.round((clock.now() - startedMs) * 10) / 10 })
  const seen = await observeUntilKnown(job)
  return seen.is === 'present' && problem !== undefined ? { ...seen, problem } : seen
}

/** Waits until the resource has ended or the budget is used up. A stronger request may shorten the budget at any time (G6). */
async function waitFor(job: Job, untilMs: () => number, ended: Promise<void>): Promise<void> {
  ended.catch(noop) // When the time is up, nothing awaits `ended`, so its error is ignored. The observation that follows decides.
  for (;;) {
    const leftMs = Math.min(untilMs() - job.clock.now(), remainingMs(job))
    const changed = job.operation.changed.then(() => 'changed' as const)
    const first = await within(job.clock, leftMs, Promise.race([ended.then(() => 'ended' as const), changed]))
    if (first.timedOut || first.value === 'ended') return
  }
}

/** Repeated kills are one step in the report, with the sum of their times. */
function addStep(steps: StepTaken[], taken: StepTaken): void {
  const previous = steps.at(-1)
  if (previous?.step === taken.step) steps[steps.length - 1] = { ...previous, took: previous.took + taken.took }
  else steps.push(taken)
}

async function observeUntilKnown(job: Job): Promise<Presence> {
  job.track.to('looking')
  // Patience is for a resource that can be observed. A resource that cannot be observed gets less time.
  const untilMs = job.clock.now() + Math.max(job.operation.remainingMs(), Math.min(remainingMs(job), unknownPatienceMs))
  for (let attempt = 1; ; attempt++) {
    const seen = await observe(job)
    const willSettle = seen.is === 'unknown' && seen.settles
    const leftMs = willSettle ? remainingMs(job) : Math.min(remainingMs(job), untilMs - job.clock.now())
    if (seen.is !== 'unknown' || leftMs <= 0) return seen
    await pause(job.clock, Math.min(backoffMs(attempt), leftMs), job.operation.changed)
  }
}

/**
 * How long failed observations are retried in a patient close that is past its deadline, so that one failed call does not end a long wait.
 */
const unknownPatienceMs = 10_000

/** The time that an observation gets at least, even at the deadline. */
const leastObservationMs = 1_000

async function observe(job: Job): Promise<Presence> {
  const lifetime = new AbortController()
  try {
    const observed = job.entry.kind.observe(job.entry.ref, { signal: lifetime.signal, clock: job.clock })
    const seen = await within(job.clock, Math.max(leastObservationMs, Math.min(observationBudgetMs, remainingMs(job))), observed)
    return seen.timedOut ? unknown(unanswered(job.entry)) : seen.value
  } catch (error) {
    return unknown(sentence(error))
  } finally {
    lifetime.abort(noLongerNeeded)
  }
}

/**
 * The error of an observation without an answer. It names only the kind, because the resource's name is beside the message wherever it is
 * shown.
 */
function unanswered({ intent: { kind } }: Entry): string {
  return `The observation of this ${kind} got no answer in time, so it is unknown whether it still exists.`
}

/**
 * Tries to meet the obligations of a resource, and returns those that could not be met. They hold the resource back, or are given up by
 * force (G8).
 */
async function meetObligations(job: Job): Promise<readonly string[]> {
  const { entry, operation, clock } = job
  const due = owed(entry, operation)
  if (due.length === 0) return []
  const unmet: string[] = []
  const startedMs = clock.now()
  const done = job.track.beginObligations()
  for (const obligation of due) {
    const problem = await meet(job, obligation)
    if (problem !== undefined) unmet.push(problem)
  }
  done(Math.round((clock.now() - startedMs) * 10) / 10)
  return unmet
}

/** The reason why logs or an archive that a request drops are not deleted yet. */
export const unrecorded = 'the ledger has not recorded the request to drop it'

/**
 * Requires that the ledger has recorded the request of a deletion before logs are dropped. Otherwise, if the supervisor is killed now, its
 * successor keeps the agent and finds its log gone (G8, G9). Kills of processes do not wait for this, because processes have no obligations
 * (G12).
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

/**
 * Tries to meet one obligation. Without force it is tried once, because the resource is then held back and a later close tries again. With
 * force it is retried until the time is up, because there is no later close.
 */
async function meet(job: Job, obligation: string): Promise<string | undefined> {
  let reason: string | undefined
  for (let attempt = 1; ; attempt++) {
    const problem = await meetOnce(job, obligation)
    if (problem === undefined) return undefined
    // The last attempt at an obligation may have had no time to fail, so the reason of an earlier attempt is kept.
    if (!problem.endsWith(notInTime)) reason = problem
    if (!job.operation.policy.givesUp || job.operation.obligationsMs() === 0) return reason ?? problem
    await pause(job.clock, Math.min(backoffMs(attempt), job.operation.obligationsMs()), job.operation.changed)
  }
}

const notInTime = 'was not done in time'

/**
 * The time that one try of an obligation gets at least, even when other resources of the close have used up all of the time. A slow upload,
 * for example, must not cost the archive (G8).
 */
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
      // A request to delete may have joined the close. It keeps no logs, so the archive is no longer owed and not awaited (G6).
      if (!owed(entry, operation).includes(obligation)) return undefined
    }
  } catch (error) {
    return `${obligation} of ${entry.name} failed: ${advised(error)}`
  } finally {
    lifetime.abort(noLongerNeeded)
  }
}
