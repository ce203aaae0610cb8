import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { algorithms, jobs } from '../baselines/baselines.ts'
import { named } from './catalogue.ts'
import { Collection, type Task } from './collection.ts'
import { writeDocument } from './document.ts'
import { endAbandoned, endAllApart, runApart } from './host.ts'
import { thisMachine } from './machine.ts'
import { withoutPlaces } from './measurement.ts'
import { agentFolderVariable } from './programs/agents.ts'
import { programs } from './programs.ts'
import { readResults, writeResults } from './results.ts'
import { baselineTable, cellTable } from './tables.ts'
import { ways } from './ways.ts'

/**
 * `npm run bench:leaks` stops every program in every way and counts what is left. `--way` and `--program` select some of them. `--save` adds the
 * measurements to the results and generates the document again. A complete run always does so. It starts without results, unless `--resume`
 * limits it to the missing measurements.
 */
const options = readOptions()
const rounds = Number(options.rounds)
const isWhole = !options.way && !options.program && !options.baseline
const isSaving = isWhole || options.save

if (options.list) list()
else if (options.document) writeDocument(readResults() ?? fail('There are no results yet; run "npm run bench:leaks" first.'))
else await run()

/** Invalid options are refused before anything is installed or started. */
function readOptions() {
  try {
    const { values } = parseArgs({
      options: {
        way: { type: 'string', multiple: true },
        program: { type: 'string', multiple: true },
        baseline: { type: 'string', multiple: true },
        rounds: { type: 'string', default: '3' },
        'at-once': { type: 'string', default: '1' },
        save: { type: 'boolean', default: false },
        resume: { type: 'boolean', default: false },
        document: { type: 'boolean', default: false },
        list: { type: 'boolean', default: false },
      },
    })
    pick(ways, values.way, true)
    pick(programs, values.program, true)
    pick(algorithms, values.baseline, true)
    for (const name of ['rounds', 'at-once'] as const)
      if (!/^[1-9]\d*$/.test(values[name])) fail(`--${name} must be a whole number of at least 1, not ${JSON.stringify(values[name])}.`)
    return values
  } catch (error) {
    process.stderr.write(`bench: ${(error as Error).message}\n`)
    process.exit(2)
  }
}

function list(): void {
  for (const { name, title } of ways) console.log(`--way ${name.padEnd(22)} ${title}`)
  for (const { name, title } of programs) console.log(`--program ${name.padEnd(22)} ${title}`)
  for (const { name, title } of algorithms) console.log(`--baseline ${name.padEnd(22)} ${title}`)
}

async function run(): Promise<void> {
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => void endAllApart().finally(() => process.exit(1)))
  await endAbandoned()
  await findAgents()
  const isAdding = isSaving && (options.resume || !isWhole)
  const collection = new Collection(thisMachine(), isAdding ? readResults() : undefined)
  const tasks = tasksOf(collection)
  let next = 0
  const work = async (): Promise<void> => {
    for (let task = tasks[next++]; task; task = tasks[next++]) {
      process.stderr.write(`bench: ${next}/${tasks.length} ${task.program}${task.agents > 1 ? ` × ${task.agents}` : ''}, ${task.way}\n`)
      await measureOne(task, collection)
      if (isSaving) writeResults(collection.results())
    }
  }
  await Promise.all(Array.from({ length: Number(options['at-once']) }, work))
  const { machine: _, ...shown } = collection.results(tasks)
  console.log(JSON.stringify(shown, null, 2))
  console.log(cellTable(shown.cells))
  console.log(baselineTable(shown.baselines))
  for (const { what, why } of shown.missing) console.log(`${what}: not measured here, ${why}.`)
  if (isSaving) writeDocument(collection.results())
}

/** Installs the agents if a selected program needs them. Otherwise the installation is skipped, because the agents take 1.3 GB. */
async function findAgents(): Promise<void> {
  const isAgent = (name: string): boolean => named(programs, name).kind === 'agent'
  const isWanted = options.program ? split(options.program).some(isAgent) : true
  if (process.env[agentFolderVariable] || !isWanted) return
  const script = join(import.meta.dirname, '..', '..', 'scripts', 'agent-clis.mjs')
  const { agentClis } = (await import(script)) as { agentClis(): Promise<{ readonly bin: string }> }
  process.env[agentFolderVariable] = (await agentClis()).bin
}

/** The selected measurements, ordered by rounds, so that a slow phase of the machine affects all ways. */
function tasksOf(collection: Collection): readonly Task[] {
  const chosenWays = available(pick(ways, options.way, options.baseline !== undefined), collection)
  const chosenPrograms = available(pick(programs, options.program, false), collection)
  const chosenAlgorithms = pick(algorithms, options.baseline, options.way !== undefined || options.program !== undefined)
  const isThere = (program: string): boolean => named(programs, program).missing?.() === undefined
  const once: Task[] = [
    ...chosenPrograms.flatMap(({ name }) => chosenWays.map((way) => ({ kind: 'cell' as const, way: way.name, program: name, agents: 1 }))),
    ...jobs
      .filter(({ program }) => isThere(program) && (!options.program || split(options.program).includes(program)))
      .flatMap((job) => chosenAlgorithms.map((one) => ({ kind: 'baseline' as const, way: one.name, ...job }))),
  ]
  const counted = once.map((task) => ({ task, from: options.resume ? collection.runsOf(task) : 0 }))
  return Array.from({ length: rounds }, (_, round) => counted.filter(({ from }) => from <= round).map(({ task }) => task)).flat()
}

function pick<T extends { readonly name: string }>(
  all: readonly T[],
  names: readonly string[] | undefined,
  isNoneByDefault: boolean,
): readonly T[] {
  if (names) return split(names).map((name) => named(all, name))
  return isNoneByDefault ? [] : all
}

function split(given: readonly string[]): readonly string[] {
  return given.flatMap((names) => names.split(','))
}

function available<T extends { readonly title: string; readonly missing?: () => string | undefined }>(
  all: readonly T[],
  collection: Collection,
): readonly T[] {
  return all.filter(({ title, missing }) => {
    const why = missing?.()
    collection.miss(title, why)
    return why === undefined
  })
}

async function measureOne(task: Task, collection: Collection): Promise<void> {
  try {
    collection.add(task, await runApart(task))
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    collection.miss(`${task.program}, ${task.way}`, withoutPlaces(why).slice(0, 200))
    process.stderr.write(`bench: ${why}\n`)
  }
}

function fail(sentence: string): never {
  throw new Error(sentence)
}
