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
  /** The strongest ladder step that a resource needed after a weaker one was not enough. */
  readonly escalation?: LadderStep
}

export const closeOutcomes = ['running', 'clean', 'not-clean', 'escalated'] as const

/** Selects closes; an absent field selects all. */
export interface HistoryFilter {
  readonly trigger?: Report['trigger'] | undefined
  readonly outcome?: (typeof closeOutcomes)[number] | undefined
  /** When true, only closes that had resources to release are selected. A running close is always included. */
  readonly hadResources?: boolean | undefined
}

/** A close of the history, with its report when the close is done, or with the state of its resources while it runs. */
export interface HistoryDetail extends HistoryEntry {
  readonly report?: Report
  readonly progress?: readonly ResourceProgress[]
}

/** Up to this many reports that are not in the cache are fetched one by one. More are fetched with one query. */
const readSingly = 10

/** How many entries the cache holds. This is more than the audit trail keeps. */
const cachedAtMost = 2_000

export interface HistoryDeps {
  readonly engine: Engine
  readonly clock: Clock
  readonly audit: AuditTrail
  readonly runningCloses: RunningCloses
}

/** The history of closes: ended ones from the audit trail, and running ones. */
export class History {
  readonly #deps: HistoryDeps
  /** Entries of reports that were read before. A stored report never changes. */
  readonly #cache = new Map<string, HistoryEntry>()
  /** Reports of combined closes that are done and not yet stored. */
  readonly #unstored = new Map<string, Report>()

  constructor(deps: HistoryDeps) {
    this.#deps = deps
  }

  /** Runs several closes as one, such as a reset: one id for progress, report and storage. */
  async record(about: CombinedClose, work: (whole: Progress) => Promise<Report>): Promise<Report> {
    const { report, stored } = await this.#deps.engine.combine(about, async (whole) => {
      const made = await work(whole)
      this.#unstored.set(about.id, made)
      return made
    })
    void stored.finally(() => this.#unstored.delete(about.id))
    return report
  }

  /** Returns the newest closes that match the filter. Reads further back until there are enough closes, or no older ones. */
  async list(limit: number, filter: HistoryFilter = {}): Promise<readonly HistoryEntry[]> {
    for (let most = limit; ; most *= 4) {
      const read = await this.#newest(most)
      const found = read.filter((entry) => fits(entry, filter))
      if (found.length >= limit || read.length < most) return found.slice(0, limit)
    }
  }

  async #newest(limit: number): Promise<readonly HistoryEntry[]> {
    const unstored = [...this.#unstored].toReversed().map(([id, body]) => [id, entryOf(id, body)] as const)
    const done = new Map([...unstored, ...(await this.#stored(limit)).map((entry) => [entry.id, entry] as const)])
    const nowMs = this.#deps.clock.now()
    const running = this.#deps.runningCloses.list().filter(({ id }) => !done.has(id))
    return [...running.map((close) => runningEntry(close, nowMs)), ...done.values()].slice(0, limit)
  }

  /** Reads stored entries through the cache: the dashboard polls every second, and a large report takes a millisecond to parse. */
  async #stored(limit: number): Promise<readonly HistoryEntry[]> {
    const { audit } = this.#deps
    const ids = await audit.reportIds(limit)
    const unread = ids.filter((id) => !this.#cache.has(id))
    const reports =
      unread.length > readSingly
        ? await audit.reports(limit)
        : await Promise.all(unread.map(async (id) => ({ id, body: await audit.findReport(id) })))
    for (const { id, body } of reports) if (body) this.#cache.set(id, entryOf(id, body))
    const entries = ids.flatMap((id) => this.#cache.get(id) ?? [])
    for (const id of this.#cache.keys()) {
      if (this.#cache.size <= cachedAtMost) break
      this.#cache.delete(id)
    }
    return entries
  }

  async find(id: string): Promise<HistoryDetail | undefined> {
    const running = this.#deps.runningCloses.list().find((close) => close.id === id)
    if (running && !this.#unstored.has(id)) {
      const tracks = this.#deps.runningCloses.find(id)?.tracks().values() ?? []
      return { ...runningEntry(running, this.#deps.clock.now()), progress: [...tracks].map((track) => track.shown()) }
    }
    const report = this.#unstored.get(id) ?? (await this.#deps.audit.findReport(id))
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

/** A resource with a single step, such as a file, does not count as escalated. */
function escalationOf({ resources }: Report): Pick<HistoryEntry, 'escalation'> {
  const needed = resources.flatMap(({ steps }) => (steps.length > 1 ? (steps.at(-1)?.step ?? []) : []))
  const escalation = ladderSteps.findLast((step) => needed.includes(step))
  return escalation === undefined ? {} : { escalation }
}
