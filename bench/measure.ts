/** Shared by all benchmarks: repeated timings, medians, and one table. Baseline and Ebb alternate in one run, because timings on a machine vary. */

export interface Row {
  readonly name: string
  /** The value that the claim compares with, in the unit of the row. */
  readonly baseline?: number
  readonly ebb: number
  readonly unit: string
  /** The claim as text. `kept` is whether this run met it. */
  readonly claim: string
  readonly kept: boolean
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN
}

export async function timed(work: () => Promise<unknown> | unknown): Promise<number> {
  const startedMs = performance.now()
  await work()
  return performance.now() - startedMs
}

/** The medians of the baseline and of Ebb. The two are measured in turns, so that a slow phase of the machine affects both. */
export async function sideBySide(
  rounds: number,
  baseline: () => Promise<number>,
  ebb: () => Promise<number>,
): Promise<{ baseline: number; ebb: number }> {
  const a: number[] = []
  const b: number[] = []
  for (let round = 0; round < rounds; round++) {
    a.push(await baseline())
    b.push(await ebb())
  }
  return { baseline: median(a), ebb: median(b) }
}

export function table(rows: readonly Row[]): string {
  const lines = rows.map((row) => [
    row.name,
    row.baseline === undefined ? '' : `${row.baseline.toFixed(1)} ${row.unit}`,
    `${row.ebb.toFixed(1)} ${row.unit}`,
    row.baseline === undefined ? '' : `${(row.ebb / row.baseline).toFixed(2)} ×`,
    row.claim,
    row.kept ? 'kept' : 'NOT KEPT',
  ])
  const all = [['what', 'baseline', 'ebb', 'ratio', 'claim', ''], ...lines]
  const widths = all[0]?.map((_, column) => Math.max(...all.map((line) => line[column]?.length ?? 0))) ?? []
  return all
    .map((line) =>
      line
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n')
}
