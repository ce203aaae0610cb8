import { algorithms, jobs } from '../baselines/baselines.ts'
import { median } from '../measure.ts'
import { programs } from './programs.ts'
import type { Baseline, Results, Run } from './results.ts'
import { time } from './tables.ts'
import { ways } from './ways.ts'

/** The chart of the document and the README: plain SVG with a transparent background, in the reader's light or dark colours. */

const width = 900
const labelWidth = 225
const barWidth = 400
const rowHeight = 22
const barHeight = 14

/** The job that the chart shows. The document shows all jobs. */
export const headline = jobs[3]

const style = `
  text { font: 13px -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328 }
  .title { font-weight: 600; font-size: 14px }
  .quiet { fill: #59636e }
  .clean { fill: #1a7f37 } .told { fill: #bf8700 } .false { fill: #cf222e } .time { fill: #0969da }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .quiet { fill: #9198a1 }
    .clean { fill: #3fb950 } .told { fill: #d29922 } .false { fill: #f85149 } .time { fill: #4493f8 }
  }`

export function chart(results: Results): string {
  const panels = [baselinePanel(results.baselines), waysPanel(results)]
  let top = 0
  const placed = panels.map(({ height, content }) => {
    const group = `<g transform="translate(0 ${top})">${content}</g>`
    top += height
    return group
  })
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${top}" width="${width}" height="${top}" role="img" aria-label="What is left when agents are stopped">`,
    `<style>${style}\n</style>`,
    ...placed,
    '</svg>\n',
  ].join('\n')
}

interface Panel {
  readonly height: number
  readonly content: string
}

function baselinePanel(baselines: readonly Baseline[]): Panel {
  const shown = algorithms.flatMap(({ name, title }) => {
    const found = baselines.find((one) => one.algorithm === name && one.program === headline.program && one.agents === headline.agents)
    return found ? [{ title, runs: found.runs }] : []
  })
  const longest = Math.max(1, ...shown.map(({ runs }) => median(runs.map(({ doneMs }) => doneMs))))
  const rows = shown.map(({ title, runs }, index) => {
    const doneMs = median(runs.map((run) => run.doneMs))
    const left = Math.max(...runs.map(({ processesThen }) => processesThen))
    const files = Math.max(...runs.map(({ filesThen }) => filesThen))
    const length = Math.max(2, (doneMs / longest) * (barWidth - 120))
    const words = `${time(doneMs)}, ${saidOf(runs)}: ${left} processes${files > 0 ? `, ${files} files` : ''} left`
    return row(index, title, rectangle(0, length, baselineColour(runs)), text(labelWidth + length + 8, index, words))
  })
  const title = `${headline.agents} × claude, each with a daemon of a tool: time until the cleanup reports its end, and the worst number of processes left then`
  return panel(title, rows, legend)
}

/**
 * The colour of an algorithm's runs. `false`: a run reported success while processes existed. `told`: processes existed, and no run with
 * processes reported success. `clean`: no run had processes.
 */
export function baselineColour(runs: Baseline['runs']): 'clean' | 'told' | 'false' {
  const leaky = runs.filter(({ processesThen }) => processesThen > 0)
  if (leaky.some(({ saidSuccess }) => saidSuccess)) return 'false'
  return leaky.length > 0 ? 'told' : 'clean'
}

function saidOf(runs: Baseline['runs']): string {
  const successes = runs.filter(({ saidSuccess }) => saidSuccess).length
  if (successes === runs.length) return '“success”'
  return successes === 0 ? '“failed”' : `“success” ${successes}/${runs.length}`
}

const keys = [
  ['clean', 'no process is left', 0],
  ['told', 'processes are left, and it reports no success', 160],
  ['false', 'processes are left, and it reports success', 505],
] as const

const legend = keys
  .map(
    ([name, words, x]) =>
      `<rect class="${name}" x="${x}" y="0" width="12" height="12" rx="2"/><text class="quiet" x="${x + 18}" y="11">${words}</text>`,
  )
  .join('')

function waysPanel({ cells }: Results): Panel {
  const agents = new Set(programs.filter(({ kind }) => kind === 'agent').map(({ name }) => name))
  const shown = ways.map(({ name, title }) => ({
    title,
    runs: cells.filter((cell) => cell.way === name && agents.has(cell.program)).flatMap(({ runs }) => runs),
  }))
  const rows = shown.map(({ title, runs }, index) => {
    if (runs.length === 0) return row(index, title, text(labelWidth, index, 'not measured here'))
    const share = (isIn: (run: Run) => boolean): number => (runs.filter(isIn).length / runs.length) * barWidth
    const clean = share(({ left }) => left === 0)
    const told = share(({ left, verdict }) => left > 0 && verdict !== 'false')
    const isFalse = share(({ left, verdict }) => left > 0 && verdict === 'false')
    const leaked = runs.filter(({ left }) => left > 0).length
    const bars = [rectangle(0, clean, 'clean'), rectangle(clean, told, 'told'), rectangle(clean + told, isFalse, 'false')]
    const files = Math.max(...runs.map((run) => run.files))
    const words = `${leaked} of ${runs.length} left processes${files > 0 ? `; up to ${files} files` : ''}`
    return row(index, title, ...bars, text(labelWidth + barWidth + 8, index, words))
  })
  return panel('Real agents (claude, codex, gemini, opencode) stopped while they work: what is left after 10 s', rows, legend)
}

function panel(title: string, rows: readonly string[], legend: string): Panel {
  const head = 30 + (legend ? 24 : 0)
  return {
    height: head + rows.length * rowHeight + 26,
    content: [
      `<text class="title" x="0" y="18">${escaped(title)}</text>`,
      legend && `<g transform="translate(0 30)">${legend}</g>`,
      `<g transform="translate(0 ${head})">${rows.join('\n')}</g>`,
    ].join('\n'),
  }
}

function row(index: number, title: string, ...parts: readonly string[]): string {
  const bars = parts.filter((part) => part.startsWith('<rect')).join('')
  const words = parts.filter((part) => part.startsWith('<text')).join('')
  return `${text(0, index, title)}<g transform="translate(${labelWidth} ${index * rowHeight + 4})">${bars}</g>${words}`
}

function rectangle(x: number, length: number, name: string): string {
  return length <= 0 ? '' : `<rect class="${name}" x="${x.toFixed(1)}" y="0" width="${length.toFixed(1)}" height="${barHeight}"/>`
}

function text(x: number, index: number, words: string): string {
  return `<text${x > 0 ? ' class="quiet"' : ''} x="${x.toFixed(0)}" y="${index * rowHeight + 16}">${escaped(words)}</text>`
}

function escaped(words: string): string {
  return words.replaceAll('&', '&amp;').replaceAll('<', '&lt;')
}
