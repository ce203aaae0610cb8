import { existsSync } from 'node:fs'
import { loadConfig } from '../../src/config/config.ts'
import { compose } from '../../src/main.ts'
import type { Crash, Role } from './job.ts'
import type { Place } from './place.ts'
import { type DriverEnd, type Program, runDriver } from './program.ts'

/** SIGKILL loses nothing that was written, so the matrix needs no disk: in memory, a thousand homes cost half the time. */
if (existsSync('/dev/shm')) process.env.TMPDIR = '/dev/shm'

/** Two cores: one point computes while another waits for its disk or its processes. */
const sideBySide = 3

export interface Matrix {
  readonly program: Program
  readonly containment: string
}

/**
 * Every k from `first` on, some points at a time, until a run came to its end alive. Answers with the number of crashes;
 * all points are tried, and all that failed are told together.
 */
export async function untilOneFinishes(point: (k: number) => Promise<DriverEnd>, first = 1, stride = 1): Promise<number> {
  const failures: string[] = []
  let next = first
  let isFinished = false
  let crashes = 0
  const worker = async (): Promise<void> => {
    while (!isFinished && failures.length < failuresShown) {
      const k = next
      next += stride
      try {
        if ((await point(k)).isKilled) crashes += 1
        else isFinished = true
      } catch (error) {
        failures.push(error instanceof Error ? error.message : String(error))
      }
    }
  }
  await Promise.all(Array.from({ length: sideBySide }, worker))
  if (failures.length > 0) throw new Error(`${failures.length} points failed:\n${failures.join('\n')}`)
  return crashes
}

const failuresShown = 10

export interface Run {
  readonly place: Place
  readonly role: Role
  readonly watched?: boolean
  readonly crash?: Crash
}

export function run({ program, containment }: Matrix, { place, role, watched = false, crash }: Run): Promise<DriverEnd> {
  const { home, workspace, temp } = place
  return runDriver(program, { role, home, workspace, temp, containment, watched, ...(crash && { crash }) })
}

/** What `ebb recover` does, in this process: a thousand starts of another one would tell nothing more. */
export async function recover(place: Place): Promise<readonly string[]> {
  const config = loadConfig({
    flags: new Map([
      ['home', place.home],
      ['logLevel', 'silent'],
    ]),
  })
  const { engine, close } = await compose(config, { watched: false })
  await engine.begin()
  const { reports, unknown, errors } = await engine.recover()
  await engine.shutDown()
  await close()
  return [...reports.filter((report) => !report.success).map((report) => JSON.stringify(report.errors)), ...unknown, ...errors]
}

/** The point is named in whatever fails at it. */
export async function at<T>(what: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    throw new Error(`At ${what}: ${error instanceof Error ? error.message : String(error)}`, { cause: error })
  }
}

export function describeCrash({ at: k, when }: Crash, end: DriverEnd): string {
  return `point ${k}, ${end.effect ?? `${when}, not reached`}`
}
