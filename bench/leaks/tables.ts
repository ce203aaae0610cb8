import { median } from '../measure.ts'
import { type Baseline, type Cell, type Summary, summary } from './results.ts'
import { patienceMs } from './way.ts'

/** Tables for a terminal and for the document. */

export type Table = readonly (readonly string[])[]

export const time = (ms: number): string => {
  if (!Number.isFinite(ms)) return '–'
  return ms < 1_000 ? `${Math.round(ms)} ms` : `${(ms / 1_000).toFixed(1)} s`
}

/** The median, followed by the worst value in parentheses if that differs. */
const withWorst = (usual: number, worst: number): string => (usual === worst ? `${usual}` : `${usual} (${worst})`)

export function cleanTime({ cleanMs, worstCleanMs }: Summary): string {
  const words = (ms: number): string => (Number.isFinite(ms) ? time(ms) : `never in ${patienceMs / 1_000} s`)
  return worstCleanMs === cleanMs ? words(cleanMs) : `${words(cleanMs)} (${words(worstCleanMs)})`
}

export function saidClean({ runs, said }: Summary): string {
  const parts = [
    said.false > 0 ? `**false ${said.false}/${runs}**` : '',
    said.early > 0 ? `early ${said.early}/${runs}` : '',
    said.none > 0 ? `not reported ${said.none}/${runs}` : '',
    said.true > 0 ? `true ${said.true}/${runs}` : '',
  ]
  return parts.filter(Boolean).join(', ')
}

export const cellHead = ['way', 'processes left', 'files left', 'time to a clean system', 'answered after', 'reported clean'] as const

export function cellRow(title: string, result: Summary): readonly string[] {
  return [
    title,
    withWorst(result.left, result.worstLeft),
    withWorst(result.files, result.worstFiles),
    cleanTime(result),
    time(result.answerMs),
    saidClean(result),
  ]
}

export function cellTable(cells: readonly Cell[]): string {
  if (cells.length === 0) return ''
  const rows = cells.map(({ program, way, runs }) => [program, ...cellRow(way, summary(runs))])
  return aligned([['program', ...cellHead], ...rows]).replaceAll('**', '')
}

export const baselineHead = ['cleanup', 'reports the end after', 'reports success', 'processes left then', 'files left then'] as const

export function baselineRow(title: string, { runs }: Baseline): readonly string[] {
  const processes = runs.map(({ processesThen }) => processesThen)
  const files = runs.map(({ filesThen }) => filesThen)
  return [
    title,
    time(median(runs.map(({ doneMs }) => doneMs))),
    `${runs.filter(({ saidSuccess }) => saidSuccess).length}/${runs.length}`,
    withWorst(median(processes), Math.max(...processes)),
    withWorst(median(files), Math.max(...files)),
  ]
}

/** Returns a cell of the overview: when the cleanup reported its end, and what was left then. */
export function baselineCell(baseline: Baseline | undefined): string {
  if (!baseline) return '·'
  const left = Math.max(...baseline.runs.map(({ processesThen }) => processesThen))
  const isFalse = baseline.runs.some(({ saidSuccess, processesThen }) => saidSuccess && processesThen > 0)
  return `${time(median(baseline.runs.map(({ doneMs }) => doneMs)))}, ${isFalse ? `**${left} left**` : `${left} left`}`
}

export function baselineTable(baselines: readonly Baseline[]): string {
  if (baselines.length === 0) return ''
  const rows = baselines.map((one) => [`${one.program} × ${one.agents}`, ...baselineRow(one.algorithm, one)])
  return aligned([['agents', ...baselineHead], ...rows])
}

export function aligned(rows: Table): string {
  const widths = rows[0]?.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0))) ?? []
  return rows
    .map((row) =>
      row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n')
}

export function markdown([head = [], ...rows]: Table): string {
  const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n')
}
