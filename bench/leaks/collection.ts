import { algorithms, type BaselineRun, jobs } from '../baselines/baselines.ts'
import { differences, type Machine } from './machine.ts'
import type { Measurement } from './measurement.ts'
import { programs } from './programs.ts'
import { type Baseline, type Cell, type Results, runOf, today } from './results.ts'
import { ways } from './ways.ts'

export interface Task {
  readonly kind: 'cell' | 'baseline'
  readonly way: string
  readonly program: string
  readonly agents: number
}

/**
 * Collects the results. Earlier results stay, with their note and their list of missing cells. A run is added and replaces no other run. Results of
 * another machine or of other versions are refused.
 */
export class Collection {
  readonly #machine: Machine
  readonly #cells = new Map<string, Cell>()
  readonly #baselines = new Map<string, Baseline>()
  readonly #missing = new Map<string, string>()

  constructor(now: Machine, before?: Results) {
    const others = before ? differences(before.machine, now) : []
    if (others.length > 0)
      throw new Error(
        `The results were measured with another ${others.join(', ')}; run everything anew with "npm run bench:leaks", or leave out --save.`,
      )
    this.#machine = { ...now, ...before?.machine, versions: { ...before?.machine.versions, ...now.versions } }
    for (const cell of before?.cells ?? []) this.#cells.set(keyOf({ kind: 'cell', agents: 1, ...cell }), cell)
    for (const one of before?.baselines ?? []) this.#baselines.set(keyOf({ kind: 'baseline', way: one.algorithm, ...one }), one)
    for (const { what, why } of before?.missing ?? []) this.#missing.set(what, why)
  }

  runsOf(task: Task): number {
    return (this.#cells.get(keyOf(task)) ?? this.#baselines.get(keyOf(task)))?.runs.length ?? 0
  }

  add(task: Task, answer: unknown): void {
    const key = keyOf(task)
    const { kind, way, program, agents } = task
    if (kind === 'cell') {
      this.#cells.set(key, { way, program, runs: [...(this.#cells.get(key)?.runs ?? []), runOf(answer as Measurement)] })
      return
    }
    const runs = [...(this.#baselines.get(key)?.runs ?? []), { at: today(), ...(answer as BaselineRun) }]
    this.#baselines.set(key, { algorithm: way, program, agents, runs })
  }

  /** Records the reason why a way or a program cannot be measured on this machine. Without a reason the earlier record is removed. */
  miss(what: string, why: string | undefined): void {
    if (why === undefined) this.#missing.delete(what)
    else this.#missing.set(what, why)
  }

  /** The results in the order of the document. With `tasks`, the results of these tasks only. */
  results(tasks?: readonly Task[]): Results {
    const keys = tasks && new Set(tasks.map(keyOf))
    const chosen = <T>(all: ReadonlyMap<string, T>): T[] => [...all].flatMap(([key, one]) => (!keys || keys.has(key) ? [one] : []))
    return {
      machine: this.#machine,
      cells: chosen(this.#cells).sort(
        (a, b) => place(programs, a.program) - place(programs, b.program) || place(ways, a.way) - place(ways, b.way),
      ),
      baselines: chosen(this.#baselines).sort(
        (a, b) => jobPlace(a) - jobPlace(b) || place(algorithms, a.algorithm) - place(algorithms, b.algorithm),
      ),
      missing: [...this.#missing].map(([what, why]) => ({ what, why })),
    }
  }
}

function keyOf({ kind, way, program, agents }: Task): string {
  return [kind, way, program, agents].join(' ')
}

function place(all: readonly { readonly name: string }[], name: string): number {
  return all.findIndex((one) => one.name === name)
}

function jobPlace({ program, agents }: Baseline): number {
  return jobs.findIndex((job) => job.program === program && job.agents === agents)
}
