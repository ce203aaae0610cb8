import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'
import type { Report } from '../core/model/report.ts'

/** Values that are read at each request of `/metrics`. */
export interface Gauges {
  readonly resources: () => Promise<readonly { readonly kind: string; readonly state: string }[]>
}

/** All metrics of Ebb. Names and labels are public (docs/reference/metrics.md). `collectDefaultMetrics` adds those of the process. */
export const metricTable = {
  cleanups: { name: 'ebb_cleanup_total', help: 'Closes of scopes, by trigger and outcome', labelNames: ['trigger', 'outcome'] },
  durations: { name: 'ebb_cleanup_duration_seconds', help: 'Durations of closes, in seconds', labelNames: [] },
  failures: { name: 'ebb_cleanup_consecutive_failures', help: 'Failed closes since the last successful one', labelNames: [] },
  steps: { name: 'ebb_ladder_steps_total', help: 'Steps of the ladder that were taken, by kind of resource', labelNames: ['kind', 'step'] },
  resources: {
    name: 'ebb_resources',
    help: 'Resources in the ledger that are not released, by kind and state',
    labelNames: ['kind', 'state'],
  },
  orphans: { name: 'ebb_orphans_found_total', help: 'Leftovers found by the reaper, by kind of resource', labelNames: ['kind'] },
  unknown: { name: 'ebb_probe_unknown_total', help: 'Observations that failed, by kind of resource', labelNames: ['kind'] },
  archived: { name: 'ebb_archived_bytes_total', help: 'Bytes of logs archived', labelNames: [] },
  freed: { name: 'ebb_freed_bytes_total', help: 'Bytes of logs deleted', labelNames: [] },
  messages: { name: 'ebb_messages_total', help: 'Messages of agents saved', labelNames: [] },
} as const

/** Collects the metrics and renders them for Prometheus. */
export class Metrics {
  readonly #registry = new Registry()
  readonly #cleanups: Counter<'trigger' | 'outcome'>
  readonly #durations: Histogram
  readonly #failures: Gauge
  readonly #steps: Counter<'kind' | 'step'>
  readonly #orphans: Counter<'kind'>
  readonly #unknown: Counter<'kind'>
  readonly #archived: Counter
  readonly #freed: Counter
  readonly #messages: Counter
  #consecutiveFailures = 0

  constructor({ resources }: Gauges) {
    const registers = [this.#registry]
    collectDefaultMetrics({ register: this.#registry })
    this.#cleanups = new Counter({ ...metricTable.cleanups, registers })
    const buckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]
    this.#durations = new Histogram({ ...metricTable.durations, buckets, registers })
    this.#failures = new Gauge({ ...metricTable.failures, registers })
    this.#steps = new Counter({ ...metricTable.steps, registers })
    this.#orphans = new Counter({ ...metricTable.orphans, registers })
    this.#unknown = new Counter({ ...metricTable.unknown, registers })
    this.#archived = new Counter({ ...metricTable.archived, registers })
    this.#freed = new Counter({ ...metricTable.freed, registers })
    this.#messages = new Counter({ ...metricTable.messages, registers })
    const gauge = new Gauge({
      ...metricTable.resources,
      registers,
      collect: async () => {
        gauge.reset()
        for (const { kind, state } of await resources()) gauge.inc({ kind, state })
      },
    })
  }

  report(report: Report): void {
    this.#cleanups.inc({ trigger: report.trigger, outcome: report.success ? 'success' : 'failure' })
    this.#durations.observe(report.duration / 1_000)
    this.#consecutiveFailures = report.success ? 0 : this.#consecutiveFailures + 1
    this.#failures.set(this.#consecutiveFailures)
    for (const { kind, steps } of report.resources) for (const { step } of steps) this.#steps.inc({ kind, step })
  }

  orphan(kind: string): void {
    this.#orphans.inc({ kind })
  }

  unknown(kind: string): void {
    this.#unknown.inc({ kind })
  }

  bytes(what: 'archived' | 'freed', count: number): void {
    ;(what === 'archived' ? this.#archived : this.#freed).inc(count)
  }

  messages(count: number): void {
    this.#messages.inc(count)
  }

  async read(): Promise<{ readonly type: string; readonly text: string }> {
    return { type: this.#registry.contentType, text: await this.#registry.metrics() }
  }
}
