import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { BaselineRun } from '../baselines/baselines.ts'
import { median } from '../measure.ts'
import type { Machine } from './machine.ts'
import { type Measurement, type Verdict, withoutPlaces } from './measurement.ts'

/** The stored results. The file has one line per cell (one program under one way), so that a diff shows what a new run changed. */
export interface Results {
  readonly machine: Machine
  readonly cells: readonly Cell[]
  readonly baselines: readonly Baseline[]
  /** Cells that this machine could not measure, and the reasons. */
  readonly missing: readonly Missing[]
}

/** The date of a run. Later runs are added to earlier ones. */
interface Dated {
  readonly at: string
}

export interface Cell {
  readonly way: string
  readonly program: string
  readonly runs: readonly Run[]
}

export interface Run extends Dated {
  readonly left: number
  readonly files: number
  readonly fileBytes: number
  /** Time from the stop to the first observation without processes. Null when every observation until the time limit found processes. */
  readonly cleanMs: number | null
  /** Time from the stop to the answer of the way. Null when the way did not answer. */
  readonly answerMs: number | null
  readonly words: string
  readonly verdict: Verdict
  /** Some of the processes that were left. */
  readonly what: readonly string[]
}

export interface Baseline {
  readonly algorithm: string
  readonly program: string
  readonly agents: number
  readonly runs: readonly (BaselineRun & Dated)[]
}

export interface Missing {
  readonly what: string
  readonly why: string
}

export function runOf({ processesLeft, filesLeft, cleanMs, answer, verdict, whatIsLeft }: Measurement): Run {
  return {
    at: today(),
    left: processesLeft,
    files: filesLeft.count,
    fileBytes: filesLeft.bytes,
    cleanMs: cleanMs === undefined ? null : Math.round(cleanMs),
    answerMs: answer ? Math.round(answer.afterMs) : null,
    words: withoutPlaces(answer?.words ?? 'no answer').slice(0, 200),
    verdict,
    what: whatIsLeft,
  }
}

export const today = (): string => new Date().toISOString().slice(0, 10)

/** The numbers of the tables, for the runs of one or several cells. */
export interface Summary {
  readonly runs: number
  readonly leaked: number
  readonly left: number
  readonly worstLeft: number
  readonly files: number
  readonly worstFiles: number
  /** The median time until no process was left. Infinity means never: a run that did not become clean sorts as the slowest. */
  readonly cleanMs: number
  readonly worstCleanMs: number
  /** The median time until the way to stop the program answered. Infinity means that it did not answer. */
  readonly answerMs: number
  readonly said: Readonly<Record<Verdict, number>>
}

export function summary(runs: readonly Run[]): Summary {
  const clean = runs.map(({ cleanMs }) => cleanMs ?? Number.POSITIVE_INFINITY)
  const count = (verdict: Verdict): number => runs.filter((run) => run.verdict === verdict).length
  const lefts = runs.map(({ left }) => left)
  const files = runs.map((run) => run.files)
  return {
    runs: runs.length,
    leaked: lefts.filter((left) => left > 0).length,
    left: median(lefts),
    worstLeft: Math.max(0, ...lefts),
    files: median(files),
    worstFiles: Math.max(0, ...files),
    cleanMs: median(clean),
    worstCleanMs: Math.max(...clean),
    answerMs: median(runs.map(({ answerMs }) => answerMs ?? Number.POSITIVE_INFINITY)),
    said: { true: count('true'), early: count('early'), false: count('false'), none: count('none') },
  }
}

export const resultsFile = join(import.meta.dirname, '..', 'results', 'leaks.json')

export function readResults(): Results | undefined {
  return existsSync(resultsFile) ? (JSON.parse(readFileSync(resultsFile, 'utf8')) as Results) : undefined
}

export function writeResults({ machine, cells, baselines, missing }: Results): void {
  const lines = (all: readonly unknown[]): string => all.map((one) => `    ${JSON.stringify(one)}`).join(',\n')
  const parts = Object.entries({ cells, baselines, missing }).map(([name, all]) => `  "${name}": [\n${lines(all)}\n  ]`)
  mkdirSync(dirname(resultsFile), { recursive: true })
  const draft = `${resultsFile}.${process.pid}`
  writeFileSync(draft, `{\n  "machine": ${JSON.stringify(machine)},\n${parts.join(',\n')}\n}\n`)
  renameSync(draft, resultsFile)
}
