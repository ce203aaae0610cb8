import { existsSync } from 'node:fs'
import { loadConfig } from '../../src/config/config.ts'
import { openHome } from '../../src/config/home.ts'
import { realEffects } from '../../src/host/effects.ts'
import { kernelId } from '../../src/host/host.ts'
import { compose } from '../../src/main.ts'
import type { Crash, Role } from './job.ts'
import type { Place } from './place.ts'
import { type DriverEnd, type Program, runDriver } from './program.ts'

/**
 * The temp folder is in memory, where a thousand homes cost half the time. SIGKILL loses nothing that was written, so the matrix needs no
 * disk.
 */
if (existsSync('/dev/shm')) process.env.TMPDIR = '/dev/shm'

/** The number of crash points that run at once on two cores: one computes while another waits for its disk or its processes. */
const parallelPoints = 3

export interface Matrix {
  readonly program: Program
  readonly containment: string
}

/**
 * Tries every k from `first` on, several at a time, until a run ends without a crash. Returns the number of crashes. All points are tried,
 * and their failures are reported together.
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
  await Promise.all(Array.from({ length: parallelPoints }, worker))
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
  // The sentinel starts after the home is made. What a crash in the making leaves is removed by the next start, which the sweeps with a
  // recovery test.
  if (watched) openHome(home, kernelId, realEffects)
  return runDriver(program, { role, home, workspace, temp, containment, watched, ...(crash && { crash }) })
}

/** Does what `ebb recover` does, in this process. A thousand `ebb recover` processes would test nothing more. */
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

/** Adds the crash point to the message of any error. */
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
