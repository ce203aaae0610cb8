import { describe, waitUntil } from '../../test/support/world.ts'
import { countProcesses, endAll, type FilesLeft, filesOf, processesOf } from './checker.ts'
import type { Place } from './place.ts'
import type { Program } from './program.ts'
import { type Answer, patienceMs, type Way, within } from './way.ts'

/** The result of stopping one program once in one way. */
export interface Measurement {
  readonly way: string
  readonly program: string
  /** The number of processes at the moment of the stop. */
  readonly processesBefore: number
  /** The number of processes at the time limit, or 0 when an earlier observation found no process. */
  readonly processesLeft: number
  readonly whatIsLeft: readonly string[]
  readonly filesLeft: FilesLeft
  /** Time from the stop to the first observation without processes. Absent when every observation found processes. */
  readonly cleanMs?: number
  readonly answer?: Answer & { readonly afterMs: number; readonly processesThen: number }
  readonly verdict: Verdict
}

/**
 * Whether the report of the way was correct. `true`: it reported the end, and no process existed. `early`: processes existed and ended later.
 * `false`: processes existed and stayed. `none`: it did not report the end.
 */
export type Verdict = 'true' | 'early' | 'false' | 'none'

const startPatienceMs = 60_000
/** The pause between two observations. An observation itself takes some milliseconds. */
const observeEveryMs = 10

export async function measure(way: Way, program: Program, place: Place): Promise<Measurement> {
  await using prepared = await program.prepare(place)
  const started = await way.start(prepared.launch)
  try {
    await waitUntil(() => prepared.isReady(processesOf(place.mark)), startPatienceMs, `${program.name} is ready under ${way.name}`)
    const processesBefore = countProcesses(place)
    const observed = await observeStop(place, () => started.stop())
    return { way: way.name, program: program.name, processesBefore, ...observed }
  } finally {
    // The processes of the program are killed before the way ends its server, so that no daemon of the agent writes to that server. The
    // parent of this process ends everything else.
    endAll(place.mark)
    await started.end?.()
  }
}

type Observed = Omit<Measurement, 'way' | 'program' | 'processesBefore'>

async function observeStop(place: Place, stop: () => Promise<Answer>): Promise<Observed> {
  const startedMs = performance.now()
  const elapsedMs = (): number => performance.now() - startedMs
  let answer: Measurement['answer']
  const answering = stop().then(
    (given) => {
      answer = { ...given, afterMs: elapsedMs(), processesThen: countProcesses(place) }
    },
    (error: unknown) => {
      answer = { isDone: false, words: String(error), afterMs: elapsedMs(), processesThen: countProcesses(place) }
    },
  )
  const cleanMs = await untilClean(place, elapsedMs)
  const left = cleanMs === undefined ? processesOf(place.mark) : []
  const processesLeft = cleanMs === undefined ? Math.max(1, left.length) : 0
  // All ways have the same time limit. An answer after the limit does not count.
  await within(answering, Math.max(0, patienceMs - elapsedMs()))
  return {
    processesLeft,
    whatIsLeft: left.slice(0, 3).map((one) => withoutPlaces(describe(one)).replaceAll(place.mark, 'MARK').slice(0, 100)),
    filesLeft: filesOf(place),
    ...(cleanMs !== undefined && { cleanMs }),
    ...(answer && { answer }),
    verdict: verdictOf(answer, processesLeft),
  }
}

/** Removes folder names, which are private and differ in every run. */
export function withoutPlaces(text: string): string {
  return text.replace(/(?:\/[^\s/'"]+)+\/([^\s/'"]+)/g, '$1')
}

async function untilClean(place: Place, elapsedMs: () => number): Promise<number | undefined> {
  while (elapsedMs() < patienceMs) {
    if (countProcesses(place) === 0) return elapsedMs()
    await new Promise((resolve) => setTimeout(resolve, observeEveryMs))
  }
  return undefined
}

function verdictOf(answer: Measurement['answer'], processesLeft: number): Verdict {
  if (!answer?.isDone) return 'none'
  if (processesLeft > 0) return 'false'
  return answer.processesThen > 0 ? 'early' : 'true'
}
