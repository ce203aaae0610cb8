import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { type Decoy, decoyProcess, disturbed, placeNeighbours } from './decoys.ts'
import { type Ended, type RunningEbb, startEbb, temporaryHome } from './home.ts'
import { Leash, leashVariable } from './leash.ts'
import { installationOf, leftInHome, openBooks } from './ledger-file.ts'
import { currentMark, markVariable } from './mark.ts'
import { needs } from './real.ts'
import { cgroupsOf, processesOfHome, type Seen, describe as show, survivors, waitUntil } from './world.ts'
import { type Animal, type ContainmentName, type Ending, zoo } from './zoo.ts'

/** The zoo suite (`zoo.ts`): hostile programs under each containment that claims to hold them, ended in every way (G2, G3, G9, G10). */

const startDeadlineMs = 20_000
/** The time in which the sentinel must clean up, for a busy machine. On an idle machine the sentinel needs about one second. */
const sentinelDeadlineMs = 30_000
const usualCodes: Record<Ending, number | null> = { 'its own exit': 0, SIGTERM: 143, timeout: 124, SIGKILL: null }

/** Describes the tests of one containment. test/core has those of the default containment, test/placements those of the weaker ones. */
export function describeZoo(containment: ContainmentName): void {
  describe(`zoo under ${containment}`, () => {
    needs('gcc', containment)
    let neighbours: readonly Decoy[] = []
    beforeAll(async () => {
      neighbours = await placeNeighbours()
    })
    afterEach(() => {
      expect(disturbed(neighbours)).toEqual([])
    })
    afterAll(async () => {
      for (const neighbour of neighbours) await neighbour.remove()
    })

    for (const animal of zoo.filter(({ heldBy }) => heldBy.includes(containment))) {
      it(`${animal.what} is released`, async () => {
        // All endings run in parallel. allSettled waits for each of them, so a failed one does not interrupt the others.
        const visits = await Promise.allSettled(animal.endings.map((ending) => visit(animal, containment, ending)))
        for (const result of visits) if (result.status === 'rejected') throw result.reason
      })
    }
  })
}

interface Visit {
  readonly animal: Animal
  readonly containment: ContainmentName
  readonly ending: Ending
  readonly home: string
  readonly run: RunningEbb
  readonly decoy: Decoy
  readonly leash: Leash
}

async function visit(animal: Animal, containment: ContainmentName, ending: Ending): Promise<void> {
  // The fixtures have this mark on their command lines too.
  const mark = `${currentMark()}${ending.replaceAll(' ', '')}-`
  const home = temporaryHome()
  using leash = new Leash(temporaryHome())
  const words = [...animal.command(containment), mark]
  const decoy = await decoyProcess('a process with the same command line', [mark])
  const limit = ending === 'timeout' ? ['--timeout', '3s'] : []
  const run = startEbb(['exec', '--containment', containment, '--grace', animal.grace ?? '300ms', ...limit, '--', ...words], {
    home,
    env: { [markVariable]: mark, [leashVariable]: leash.path },
    report: join(home, 'report.json'),
    deadlineMs: startDeadlineMs + sentinelDeadlineMs,
  })
  const current: Visit = { animal, containment, ending, home, run, decoy, leash }
  try {
    await run.says('ready')
    await end(current)
    await (ending === 'SIGKILL' ? requireCleanedBySentinel(current) : requireReleased(current))
    expect(disturbed([decoy])).toEqual([])
  } finally {
    await decoy.remove()
  }
}

async function end(current: Visit): Promise<void> {
  const { animal, ending, run, leash } = current
  if (ending === 'timeout') return
  const stands = waitUntil(() => leash.isHeld() && animal.stands(treeOf(current)), startDeadlineMs, `${animal.what} stands`)
  await Promise.race([stands, run.ended.then(tooEarly)])
  if (ending === 'its own exit') run.endInput()
  else run.signal(ending)
}

function tooEarly(ended: Ended): never {
  throw new Error(`The run ended before its process tree was seen: ${JSON.stringify(ended)}`)
}

function treeOf({ run, decoy }: Visit): readonly Seen[] {
  return survivors(run.mark).filter(({ pid }) => pid !== run.pid && pid !== decoy.process.pid)
}

/** Checks at the exit of the supervisor, without a wait: a supervisor that reports "released" has observed that everything is gone. */
async function requireReleased(current: Visit): Promise<void> {
  const { animal, containment, ending, home, run, leash } = current
  const ended = await run.ended
  const isHeld = leash.isHeld()
  const left = treeOf(current).map(show)
  const cgroups = cgroupsOf(installationOf(home) ?? '')
  expect({ isHeld, left, cgroups, inHome: leftInHome(home) }).toEqual({ isHeld: false, left: [], cgroups: [], inHome: [] })
  expect({ code: ended.code, signal: ended.signal, stderr: ended.stderr }).toEqual({
    code: animal.codes?.[ending] ?? usualCodes[ending],
    signal: null,
    stderr: '',
  })
  expect(ended.report).toMatchObject({ success: true, errors: [], gaveUp: [] })
  const [tree] = ended.report?.resources ?? []
  const strength = containment === 'scan' || animal.strays ? 'scan' : 'kernel'
  expect(tree).toMatchObject({ kind: 'process-tree', outcome: 'released', proof: { strength } })
  const steps = animal.steps?.[ending]
  if (steps) expect(tree?.steps.map(({ step }) => step)).toEqual(steps)
  expect(openBooks(home)).toEqual([])
}

/**
 * Waits until the sentinel has cleaned up. Each check reads everything in one pass, because a process in the middle of an exec shows no
 * environment for a moment.
 */
async function requireCleanedBySentinel(current: Visit): Promise<void> {
  const { home, run, leash } = current
  const leftovers = (): readonly string[] => [
    ...[...treeOf(current), ...processesOfHome(home, installationOf(home))].map(show),
    ...(leash.isHeld() ? ['a process that holds the leash'] : []),
    ...cgroupsOf(installationOf(home) ?? ''),
    ...leftInHome(home),
    ...openBooks(home),
  ]
  await waitUntil(leftovers, sentinelDeadlineMs, 'the sentinel cleans up')
  expect(await run.ended).toMatchObject({ signal: 'SIGKILL' })
}
