import { describe, waitUntil } from '../../test/support/world.ts'
import { countProcesses, endAll, type FilesLeft, filesOf, processesOf } from './checker.ts'
import type { Place } from './place.ts'
import type { Program } from './program.ts'
import { type Answer, patienceMs, type Way, within } from './way.ts'

/** One program, stopped once in one way. */
export interface Measurement {
  readonly way: string
  readonly program: string
  /** When it was stopped. */
  readonly processesBefore: number
  /** After the patience, or when the world was clean. */
  readonly processesLeft: number
  readonly whatIsLeft: readonly string[]
  readonly filesLeft: FilesLeft
  /** From the stop to the first look that found nothing; without it, never. */
  readonly cleanMs?: number
  readonly answer?: Answer & { readonly afterMs: number; readonly processesThen: number }
  readonly verdict: Verdict
}

/**
 * `true`: it said done, and nothing was there. `early`: something was, and went afterwards. `false`: something was, and
 * stayed. `none`: it never said that it was done.
 */
export type Verdict = 'true' | 'early' | 'false' | 'none'

const startPatienceMs = 60_000
/** Between two looks, each of which takes some milliseconds itself. */
const lookEveryMs = 10

export async function measure(way: Way, program: Program, place: Place): Promise<Measurement> {
  await using prepared = await program.prepare(place)
  const started = await way.start(prepared.launch)
  try {
    await waitUntil(() => prepared.stands(processesOf(place.mark)), startPatienceMs, `${program.name} stands under ${way.name}`)
    const processesBefore = countProcesses(place)
    const watched = await watch(place, () => started.stop())
    return { way: way.name, program: program.name, processesBefore, ...watched }
  } finally {
    // Else a server would be asked to leave while its agent's daemons talk on; the rest is for whoever started this process.
    endAll(place.mark)
    await started.end?.()
  }
}

type Watched = Omit<Measurement, 'way' | 'program' | 'processesBefore'>

async function watch(place: Place, stop: () => Promise<Answer>): Promise<Watched> {
  const startedMs = performance.now()
  const passed = (): number => performance.now() - startedMs
  let answer: Measurement['answer']
  const answering = stop().then(
    (given) => {
      answer = { ...given, afterMs: passed(), processesThen: countProcesses(place) }
    },
    (error: unknown) => {
      answer = { isDone: false, words: String(error), afterMs: passed(), processesThen: countProcesses(place) }
    },
  )
  const cleanMs = await untilClean(place, passed)
  const left = cleanMs === undefined ? processesOf(place.mark) : []
  const processesLeft = cleanMs === undefined ? Math.max(1, left.length) : 0
  // The one patience for all: what is said later is no answer.
  await within(answering, Math.max(0, patienceMs - passed()))
  return {
    processesLeft,
    whatIsLeft: left.slice(0, 3).map((one) => withoutPlaces(describe(one)).replaceAll(place.mark, 'MARK').slice(0, 100)),
    filesLeft: filesOf(place),
    ...(cleanMs !== undefined && { cleanMs }),
    ...(answer && { answer }),
    verdict: verdictOf(answer, processesLeft),
  }
}

/** Where things are on this machine is nobody's business, and different at every run. */
export function withoutPlaces(text: string): string {
  return text.replace(/(?:\/[^\s/'"]+)+\/([^\s/'"]+)/g, '$1')
}

async function untilClean(place: Place, passed: () => number): Promise<number | undefined> {
  while (passed() < patienceMs) {
    if (countProcesses(place) === 0) return passed()
    await new Promise((resolve) => setTimeout(resolve, lookEveryMs))
  }
  return undefined
}

function verdictOf(answer: Measurement['answer'], processesLeft: number): Verdict {
  if (!answer?.isDone) return 'none'
  if (processesLeft > 0) return 'false'
  return answer.processesThen > 0 ? 'early' : 'true'
}
