import type { CombinedClose, Engine } from '../core/engine/api.ts'
import type { Progress, Undertaking } from '../core/engine/progress.ts'
import { type LadderStep, ladderSteps } from '../core/model/ladder.ts'
import type { ResourceProgress } from '../core/model/progress.ts'
import type { Report } from '../core/model/report.ts'
import type { Clock } from '../core/ports/clock.ts'
import type { AuditTrail } from '../core/ports/ledger.ts'
import type { RunningCloses } from './running-closes.ts'

export interface HistoryEntry {
  readonly id: string
  readonly state: 'running' | 'done'
  readonly trigger: Report['trigger']
  readonly scope: Report['scope']
  readonly startedAt: string
  readonly duration: number
  readonly success: boolean
  readonly released: number
  readonly stuck: number
  readonly errors: readonly string[]
  /** The strongest step that something needed because a gentler one had not been enough. */
  readonly escalation?: LadderStep
}

export const closeOutcomes = ['running', 'clean', 'not-clean', 'escalated'] as const

/** Which of them are wanted: all, unless something is said. */
export interface HistoryFilter {
  readonly trigger?: Report['trigger'] | undefined
  readonly outcome?: (typeof closeOutcomes)[number] | undefined
  /** Something was there to take away, or may be while it runs. */
  readonly hadResources?: boolean | undefined
}

/** One of them: with its report, or, while it runs, with its resources so far. */
export interface HistoryDetail extends HistoryEntry {
  readonly report?: Report
  readonly progress?: readonly ResourceProgress[]
}

/** So few are fetched one by one, and more of them all together. */
const readSingly = 10

/** More than the audit trail keeps. */
const readAtMost = 2_000

export interface HistoryDeps {
  readonly engine: Engine
  readonly clock: Clock
  readonly audit: AuditTrail
  readonly runningCloses: RunningCloses
}

/** The closes that have ended, from the audit trail, and those that run. */
export class History {
  readonly #deps: HistoryDeps
  /** Of those that were read before. */
  readonly #read = new Map<string, HistoryEntry>()
  /** Done, and on their way into the ledger. */
  readonly #unkept = new Map<string, Report>()

  constructor(deps: HistoryDeps) {
    this.#deps = deps
  }

  /** Several closes as one, such as a reset: watched, reported and stored under one id. */
  async record(about: CombinedClose, work: (whole: Progress) => Promise<Report>): Promise<Report> {
    const { report, stored } = await this.#deps.engine.combine(about, async (whole) => {
      const made = await work(whole)
      this.#unkept.set(about.id, made)
      return made
    })
    void stored.finally(() => this.#unkept.delete(about.id))
    return report
  }

  /** The newest that fit; it is looked for as far back as there is anything, and no further than needed. */
  async list(limit: number, filter: HistoryFilter = {}): Promise<readonly HistoryEntry[]> {
    for (let most = limit; ; most *= 4) {
      const read = await this.#newest(most)
      const found = read.filter((entry) => fits(entry, filter))
      if (found.length >= limit || read.length < most) return found.slice(0, limit)
    }
  }

  async #newest(limit: number): Promise<readonly HistoryEntry[]> {
    const unkept = [...this.#unkept].toReversed().map(([id, body]) => [id, entryOf(id, body)] as const)
    const done = new Map([...unkept, ...(await this.#kept(limit)).map((entry) => [entry.id, entry] as const)])
    const nowMs = this.#deps.clock.now()
    const running = this.#deps.runningCloses.list().filter(({ id }) => !done.has(id))
    return [...running.map((one) => runningEntry(one, nowMs)), ...done.values()].slice(0, limit)
  }

  /** A page that watches asks every second; a report of a large close takes a millisecond to read, and never changes. */
  async #kept(limit: number): Promise<readonly HistoryEntry[]> {
    const { audit } = this.#deps
    const ids = await audit.reportIds(limit)
    const unread = ids.filter((id) => !this.#read.has(id))
    const reports =
      unread.length > readSingly
        ? await audit.reports(limit)
        : await Promise.all(unread.map(async (id) => ({ id, body: await audit.findReport(id) })))
    for (const { id, body } of reports) if (body) this.#read.set(id, entryOf(id, body))
    const entries = ids.flatMap((id) => this.#read.get(id) ?? [])
    for (const id of this.#read.keys()) {
      if (this.#read.size <= readAtMost) break
      this.#read.delete(id)
    }
    return entries
  }

  async find(id: string): Promise<HistoryDetail | undefined> {
    const running = this.#deps.runningCloses.list().find((one) => one.id === id)
    if (running && !this.#unkept.has(id)) {
      const tracks = this.#deps.runningCloses.find(id)?.tracks().values() ?? []
      return { ...runningEntry(running, this.#deps.clock.now()), progress: [...tracks].map((track) => track.shown()) }
    }
    const report = this.#unkept.get(id) ?? (await this.#deps.audit.findReport(id))
    return report && { ...entryOf(id, report), report }
  }
}

function fits(entry: HistoryEntry, { trigger, outcome, hadResources }: HistoryFilter): boolean {
  if (trigger !== undefined && entry.trigger !== trigger) return false
  if (outcome !== undefined && !hasOutcome(entry, outcome)) return false
  return hadResources === undefined || (entry.state === 'running' || entry.released + entry.stuck > 0) === hadResources
}

function hasOutcome({ state, success, escalation }: HistoryEntry, outcome: NonNullable<HistoryFilter['outcome']>): boolean {
  if (outcome === 'running') return state === 'running'
  if (outcome === 'escalated') return escalation !== undefined
  return state === 'done' && success === (outcome === 'clean')
}

type Counted = Undertaking & { readonly released: number; readonly stuck: number }

function runningEntry({ id, trigger, scope, startedAt, startedMs, released, stuck }: Counted, nowMs: number): HistoryEntry {
  const duration = Math.round(nowMs - startedMs)
  return { id, state: 'running', trigger, scope, startedAt, duration, success: false, released, stuck, errors: [] }
}

function entryOf(id: string, report: Report): HistoryEntry {
  const count = (...outcomes: readonly string[]): number => report.resources.filter(({ outcome }) => outcomes.includes(outcome)).length
  return {
    id,
    state: 'done',
    trigger: report.trigger,
    scope: report.scope,
    startedAt: report.startedAt,
    duration: report.duration,
    success: report.success,
    released: count('released', 'given-up'),
    stuck: count('stuck', 'held-back'),
    errors: report.errors,
    ...escalationOf(report),
  }
}

/** What knows one step only, such as a file, has not escalated by taking it. */
function escalationOf({ resources }: Report): Pick<HistoryEntry, 'escalation'> {
  const needed = resources.flatMap(({ steps }) => (steps.length > 1 ? (steps.at(-1)?.step ?? []) : []))
  const escalation = ladderSteps.findLast((step) => needed.includes(step))
  return escalation === undefined ? {} : { escalation }
}
