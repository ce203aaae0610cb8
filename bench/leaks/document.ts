import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { algorithms, jobs } from '../baselines/baselines.ts'
import { chart } from './chart.ts'
import { programs } from './programs.ts'
import { type Baseline, type Results, type Run, summary } from './results.ts'
import { baselineCell, baselineHead, baselineRow, cellHead, cellRow, cleanTime, markdown, saidClean } from './tables.ts'
import { standingFolders, userFiles } from './user-files.ts'
import { patienceMs } from './way.ts'
import { ways } from './ways.ts'

/** Generates `docs/leak-benchmark.md` and its chart from the results. */
const docs = join(import.meta.dirname, '..', '..', 'docs')

export function writeDocument(results: Results): void {
  writeFileSync(join(docs, 'leak-benchmark.md'), documentOf(results))
  writeFileSync(join(docs, 'leak-benchmark.svg'), chart(results))
}

export function documentOf(results: Results): string {
  const parts = [
    head(results),
    cleanups(results),
    summaries(results),
    matrix(results),
    everyCell(results),
    howCounted(),
    notMeasured(results),
  ]
  return `${parts.filter(Boolean).join('\n\n')}\n`
}

function head({ machine, cells, baselines }: Results): string {
  const dates = [...cells, ...baselines].flatMap(({ runs }) => runs.map(({ at }) => at)).sort()
  const when = [...new Set([dates[0], dates.at(-1)])].join(' to ')
  const rounds = cells.map(({ runs }) => runs.length)
  const times = Math.min(...rounds) === Math.max(...rounds) ? `${rounds[0]}` : `${Math.min(...rounds)} to ${Math.max(...rounds)}`
  const versions = Object.entries(machine.versions).map((pair) => pair.join(' '))
  return `# The leak benchmark

This page shows what is left of a program after it is stopped. \`npm run bench:leaks\` generates it from its results, including Ebb's
failures. It stops the same programs in common ways and with Ebb. Afterwards a checker that shares no code with Ebb counts what is left.
The agents are the real ones, with a scripted model on loopback. They are installed once, and after that no network is needed.

Measured on ${when}: ${machine.system}, ${machine.cores} cores, ${machine.memoryGb} GB, ${networkWords[machine.network]}; each cell measured ${times === '1' ? 'once' : `${times} times`}. ${versions.join(', ')}.
Times depend on the machine and its load. What is left depends much less on them.${machine.note ? `\n\n${machine.note}` : ''}

\`\`\`sh
npm run bench:leaks                                                       # everything again; takes hours
npm run bench:leaks -- --way tree-kill --program claude-young-tool        # one row
npm run bench:leaks -- --baseline generous-delays --program claude-daemon # one cleanup
npm run bench:leaks -- --way execa --program codex-mcp --save             # adds the run to the results
npm run bench:leaks -- --list                                             # lists all names
\`\`\`

![What is left when agents are stopped](leak-benchmark.svg)`
}

const networkWords = {
  loopback: 'every run in a network namespace with loopback only',
  shared: 'the runs in the network of the machine, because no network namespace could be created',
} as const

function cleanups({ baselines }: Results): string {
  if (baselines.length === 0) return ''
  const measured = jobs.filter(({ program, agents }) => baselines.some((one) => one.program === program && one.agents === agents))
  const find = (algorithm: string, { program, agents }: (typeof jobs)[number]): Baseline | undefined =>
    baselines.find((one) => one.algorithm === algorithm && one.program === program && one.agents === agents)
  const rows = algorithms.map(({ name, title }) => [title, ...measured.map((job) => baselineCell(find(name, job)))])
  const heads = measured.map(({ program, agents }) => `${agents} × \`${program}\``)
  const details = measured.map((job) => {
    const all = algorithms.flatMap(({ name, title }) => {
      const found = find(name, job)
      return found ? [baselineRow(title, found)] : []
    })
    const summary = `${job.agents} × ${programs.find(({ name }) => name === job.program)?.title ?? job.program}`
    return `<details><summary>${summary}</summary>\n\n${markdown([baselineHead, ...all])}\n\n</details>`
  })
  const descriptions = algorithms.map(({ name, title, how }) => `- **${title}** (\`--baseline ${name}\`): ${how}.`)
  return `## Cleanups with delays, and Ebb

Four cleanups of a kind that is common where a program cannot observe what an agent started: signals, delays that should be long
enough, and a check of the program's own records. They run as described below, including the delays. The HTTP calls between their parts
are left out, which makes them faster. The time is the time until the cleanup reports its end. The number is the worst number of
processes that the checker finds at that moment. It is bold where the cleanup reported success. With five agents, each first makes a tool
call that waits for all five, so that the next step begins in all of them at once. Ebb's rows launch the agents by their providers; the other
rows run the plain command.

${markdown([['cleanup', ...heads], ...rows])}

${descriptions.join('\n')}

${details.join('\n\n')}`
}

function summaries({ cells }: Results): string {
  const rowsOf = (kind: 'agent' | 'zoo'): (readonly string[])[] => {
    const names = new Set(programs.filter((program) => program.kind === kind).map(({ name }) => name))
    return ways.map(({ name, title }) => {
      const runs = cells.filter((cell) => cell.way === name && names.has(cell.program)).flatMap((cell) => cell.runs)
      return runs.length === 0 ? [title, 'not measured here', '', '', '', ''] : [title, ...totals(runs)]
    })
  }
  const heads = [
    'way',
    'runs that left processes',
    'processes left',
    'files left',
    'time to a clean system, median (worst)',
    'reported clean',
  ]
  return `## Ways to stop

Real agents, all situations together. \`ebb serve\` launches an agent by its provider (prompt on standard input, a variable for gemini, SIGINT
for claude and codex), except in the row “any command”. All other ways run the same plain command.

${markdown([heads, ...rowsOf('agent')])}

The zoo, all programs together:

${markdown([heads, ...rowsOf('zoo')])}

${ways.map(({ name, title, how }) => `- **${title}** (\`--way ${name}\`): ${how}.`).join('\n')}`
}

function totals(runs: readonly Run[]): readonly string[] {
  const all = summary(runs)
  const sum = (value: (run: Run) => number): string => String(runs.reduce((total, run) => total + value(run), 0))
  return [`${all.leaked} of ${all.runs}`, sum(({ left }) => left), sum(({ files }) => files), cleanTime(all), saidClean(all)]
}

/** The overview: for each program and each way to stop it, the largest number of processes that were left. */
function matrix({ cells }: Results): string {
  const heads = ['program', ...ways.map(({ title }) => title)]
  const rows = programs.map(({ name }) => [
    name,
    ...ways.map((way) => {
      const cell = cells.find((one) => one.way === way.name && one.program === name)
      if (!cell) return '·'
      const { worstLeft } = summary(cell.runs)
      return worstLeft > 0 ? `**${worstLeft}**` : '0'
    }),
  ])
  return `## Processes left, at worst\n\n${markdown([heads, ...rows])}`
}

function everyCell({ cells }: Results): string {
  const sections = programs.flatMap(({ name, title }) => {
    const rows = ways.flatMap((way) => {
      const cell = cells.find((one) => one.way === way.name && one.program === name)
      return cell ? [cellRow(way.title, summary(cell.runs))] : []
    })
    if (rows.length === 0) return []
    return [`<details><summary><code>${name}</code>: ${title}</summary>\n\n${markdown([cellHead, ...rows])}\n\n</details>`]
  })
  return `## Every cell\n\nEach cell shows the median, and in brackets the worst value if it differs.\n\n${sections.join('\n\n')}`
}

function howCounted(): string {
  const seconds = patienceMs / 1_000
  return `## How leftovers are counted

- **Processes left**: running processes with the mark of the run in their arguments, their environment or their working directory, ${seconds} s after
  the stop, or 0 as soon as there are none. A chain of forks that no list of processes shows is detected by a pipe that it holds. Zombies
  do not count. Processes that a way runs around the program (\`timeout\`, \`unshare\`, \`ebb exec\` and its sentinel) count too.
- **Files left**: all files in the temp folder and the HOME of the run, including empty folders, except the files of the user listed here. The
  list is the same for every way. Some of the counted files also stay when an agent ends by itself. Not counted:
${userFiles.map(({ what, names }) => `  - ${what}: ${coded(names)}`).join('\n')}
  - these folders when they are empty: ${coded(standingFolders)}

  In a container the temp folder is inside of the container, and HOME is mounted.
- **Time to a clean system**: the time from the stop to the first observation without processes, with 10 ms between two observations. A run
  that is not clean after ${seconds} s counts as never, also in the median. For an even number of runs the median is the slower of the two in the
  middle.
- **Reported clean**: the report of the way itself: the exit of the signalled process, an exit code, a promise, or a report. *true*: it reported
  the end, and no process existed. *false*: it reported the end, and processes stayed. *early*: processes existed at the report, and
  ended later. *not reported*: it did not report the end within ${seconds} s, or it reported a failure.
- Every way is used as its documentation describes and has ${seconds} s. Ways that escalate do so after 5 s, as Ebb does. A further run is added
  and never replaces an earlier one. Each run has its own process and cgroup and, where a network namespace can be created, a network with
  loopback only. The benchmark ends what a way leaves.`
}

const coded = (names: readonly string[]): string => names.map((name) => `\`${name}\``).join(', ')

function notMeasured({ missing }: Results): string {
  if (missing.length === 0) return ''
  return `## Not measured here\n\n${missing.map(({ what, why }) => `- ${what}: ${why}`).join('\n')}`
}
