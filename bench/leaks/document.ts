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

/** `docs/leak-benchmark.md` and its chart, from the results alone. */
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

What is left of a program when it is stopped? This page is made by \`npm run bench:leaks\` from its results, Ebb's failures
included: the same programs, stopped in the ways that people stop things today and by Ebb, looked at afterwards by a checker
that shares no code with Ebb. The agents are the real ones, against a model on loopback that follows a script; they are
installed once, and after that no network is needed.

Measured on ${when}: ${machine.system}, ${machine.cores} cores, ${machine.memoryGb} GB, ${networkWords[machine.network]}; each cell measured ${times === '1' ? 'once' : `${times} times`}. ${versions.join(', ')}.
Times depend on the machine and on what else it does; what is left depends on them far less.${machine.note ? `\n\n${machine.note}` : ''}

\`\`\`sh
npm run bench:leaks                                                       # everything, anew: hours
npm run bench:leaks -- --way tree-kill --program claude-young-tool        # one row
npm run bench:leaks -- --baseline generous-delays --program claude-daemon # one cleanup
npm run bench:leaks -- --way execa --program codex-mcp --save             # added to the results
npm run bench:leaks -- --list                                             # the names
\`\`\`

![What is left when agents are stopped](leak-benchmark.svg)`
}

const networkWords = {
  loopback: 'every run in a network namespace with nothing but loopback',
  shared: "the runs in the machine's own network, as no network namespace could be made",
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

Four cleanups as they are written when nobody can see what an agent started: signals, delays that should be long enough,
and a check of one's own records. They run as described, sleeps included, and without the HTTP calls between their parts,
which is in their favour. The time is until the cleanup says that it is done; left are the processes that the checker sees at
that moment, at worst; bold where the cleanup said that it was a success. Where there are five agents, each has made a first tool
call that waits until all five are there, so that what comes next begins in all of them at once. Ebb's rows launch the agents by
their providers, the others by the plain command.

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
  const heads = ['way', 'runs that left processes', 'processes left', 'files left', 'time to a clean world, median (worst)', 'said clean']
  return `## Ways to stop

Real agents, all moments together. \`ebb serve\` launches an agent by its provider, which is a part of what it does (prompt on standard
input, a variable for gemini, SIGINT for claude and codex), except for “any command”; all other ways run the same plain command.

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

/** Processes left, at worst: the whole at a glance. */
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
  return `## Every cell\n\nThe median, and in brackets the worst where that differs.\n\n${sections.join('\n\n')}`
}

function howCounted(): string {
  const seconds = patienceMs / 1_000
  return `## How it is counted

- **Processes left**: living processes with the mark of the run in their arguments, their environment or their working
  directory, ${seconds} s after the stop, or when there are none. A chain of forks that outruns every list is seen by a pipe that it
  holds. Zombies are dead. What a way itself runs around the program (\`timeout\`, \`unshare\`, \`ebb exec\` and its sentinel) counts too.
- **Files left**: everything in the temp folder and the HOME of the run, empty folders too, that is not listed here as the user's, for
  every way alike; some of it stays also when an agent ends by itself. Not counted:
${userFiles.map(({ what, names }) => `  - ${what}: ${coded(names)}`).join('\n')}
  - and, when they are empty: ${coded(standingFolders)}

  In a container the temp folder is the container's, and HOME is mounted.
- **Time to a clean world**: from the stop to the first look that finds no process, with 10 ms between two looks. A run that
  is not clean after ${seconds} s counts as never, in the median too. Of an even number of runs the median is the slower of the two in
  the middle.
- **Said clean**: what the way itself says: the exit of the process that was signalled, an exit code, a promise, a report.
  *false*: it said so, and processes were left for good. *early*: they were there when it said so, and went afterwards. *not said*: it did
  not say so within ${seconds} s, or said that it failed.
- Every way is used as its documentation says and gets ${seconds} s; those that escalate do so after 5 s, as Ebb does. No result is
  replaced by a better one: a further run is added. Each run has a process, a cgroup and, where a network namespace can be made, a
  network of its own with nothing but loopback; what a way leaves is ended afterwards by the benchmark.`
}

const coded = (names: readonly string[]): string => names.map((name) => `\`${name}\``).join(', ')

function notMeasured({ missing }: Results): string {
  if (missing.length === 0) return ''
  return `## Not measured here\n\n${missing.map(({ what, why }) => `- ${what}: ${why}`).join('\n')}`
}
