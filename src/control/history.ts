import type { Report } from '../domain/report.ts'
import type { Engine } from '../engine/engine.ts'
import { within } from '../engine/race.ts'

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
}

/** Something larger than one close, such as a reset, while it runs. */
interface Undertaking {
  readonly trigger: Report['trigger']
  readonly scope: Report['scope']
  readonly startedAt: string
  readonly startedMs: number
}

/** An answer waits so long for its report to be kept; a database that is locked keeps it later, or never. */
const keepingMs = 200

/** The audit trail, and what is under way. */
export class History {
  readonly #engine: Engine
  readonly #running = new Map<string, Undertaking>()
  /** Done, and on their way into the ledger. */
  readonly #unkept = new Map<string, Report>()

  constructor(engine: Engine) {
    this.#engine = engine
  }

  /** Keeps the report of `work` under an id that is known from the start. */
  async record(id: string, trigger: Report['trigger'], scope: Report['scope'], work: () => Promise<Report>): Promise<Report> {
    const { clock, ledger, log, onReport } = this.#engine.parts
    this.#running.set(id, { trigger, scope, startedAt: clock.wall(), startedMs: clock.now() })
    try {
      const report = await work()
      this.#unkept.set(id, report)
      const kept = ledger
        .addReport({ id, body: report })
        .catch((error: unknown) => log.warn('A report could not be kept.', { error: String(error) }))
        .finally(() => this.#unkept.delete(id))
      await within(clock, keepingMs, kept)
      onReport(report, scope.kind === 'namespace' ? scope.id : undefined)
      return report
    } finally {
      this.#running.delete(id)
    }
  }

  async list(limit: number): Promise<readonly HistoryEntry[]> {
    const kept = await this.#engine.parts.ledger.reports(limit)
    const done = new Map([...[...this.#unkept].toReversed(), ...kept.map(({ id, body }) => [id, body] as const)])
    return [...this.#underWay(), ...[...done].map(([id, body]) => entryOf(id, body))].slice(0, limit)
  }

  async find(id: string): Promise<(HistoryEntry & { readonly report?: Report }) | undefined> {
    const running = this.#underWay().find((entry) => entry.id === id)
    if (running) return running
    const report = this.#unkept.get(id) ?? (await this.#engine.parts.ledger.findReport(id))
    return report && { ...entryOf(id, report), report }
  }

  #underWay(): readonly HistoryEntry[] {
    const { flights, clock, book } = this.#engine.parts
    const closes = [...flights].flatMap(([scopeId, flight]) => {
      const scope = book.find(scopeId)
      // What is closed because of the scope above is part of that close.
      if (!scope || flights.has(scope.parentId ?? '')) return []
      const about = { trigger: flight.wish.trigger, scope: { kind: scope.kind, id: scope.label ?? scopeId } }
      return [running(flight.id, { ...about, startedAt: flight.startedAt, startedMs: flight.startedMs }, clock.now())]
    })
    return [...[...this.#running].map(([id, undertaking]) => running(id, undertaking, clock.now())), ...closes]
  }
}

function running(id: string, { trigger, scope, startedAt, startedMs }: Undertaking, nowMs: number): HistoryEntry {
  const duration = Math.round(nowMs - startedMs)
  return { id, state: 'running', trigger, scope, startedAt, duration, success: false, released: 0, stuck: 0, errors: [] }
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
  }
}
