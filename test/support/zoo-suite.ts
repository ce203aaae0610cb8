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

/** The suite of the zoo (`zoo.ts`): hostile programs under a containment that claims to hold them, ended in every way (G2, G3, G9, G10). */

const startDeadlineMs = 20_000
/** The promise is one second on an idle machine; this bounds a noisy one. */
const sentinelDeadlineMs = 30_000
const usualCodes: Record<Ending, number | null> = { 'its own exit': 0, SIGTERM: 143, timeout: 124, SIGKILL: null }

/** Describes the tests of one containment. The default containment is tested by tier core, the weaker ones by tier placements. */
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
        // All endings run side by side, and all of them to their end: a failed one does not leave the others half-way.
        const visits = await Promise.allSettled(animal.endings.map((ending) => visit(animal, containment, ending)))
        for (const one of visits) if (one.status === 'rejected') throw one.reason
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
  // The fixtures write it on their command lines too.
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
  const one: Visit = { animal, containment, ending, home, run, decoy, leash }
  try {
    await run.says('ready')
    await end(one)
    await (ending === 'SIGKILL' ? requireCleanedBySentinel(one) : requireReleased(one))
    expect(disturbed([decoy])).toEqual([])
  } finally {
    await decoy.remove()
  }
}

async function end(one: Visit): Promise<void> {
  const { animal, ending, run, leash } = one
  if (ending === 'timeout') return
  const stands = waitUntil(() => leash.isHeld() && animal.stands(treeOf(one)), startDeadlineMs, `${animal.what} stands`)
  await Promise.race([stands, run.ended.then(tooEarly)])
  if (ending === 'its own exit') run.endInput()
  else run.signal(ending)
}

function tooEarly(ended: Ended): never {
  throw new Error(`It ended before its tree was seen: ${JSON.stringify(ended)}`)
}

function treeOf({ run, decoy }: Visit): readonly Seen[] {
  return survivors(run.mark).filter(({ pid }) => pid !== run.pid && pid !== decoy.process.pid)
}

/** At the moment of its exit, not a while later: a supervisor that says "released" has seen it. */
async function requireReleased(one: Visit): Promise<void> {
  const { animal, containment, ending, home, run, leash } = one
  const ended = await run.ended
  const isHeld = leash.isHeld()
  const left = treeOf(one).map(show)
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

/** All in one look: a process that is just becoming another program shows no environment for a moment. */
async function requireCleanedBySentinel(one: Visit): Promise<void> {
  const { home, run, leash } = one
  const look = (): readonly string[] => [
    ...[...treeOf(one), ...processesOfHome(home, installationOf(home))].map(show),
    ...(leash.isHeld() ? ['somebody who holds the leash'] : []),
    ...cgroupsOf(installationOf(home) ?? ''),
    ...leftInHome(home),
    ...openBooks(home),
  ]
  await waitUntil(look, sentinelDeadlineMs, 'the sentinel cleans up')
  expect(await run.ended).toMatchObject({ signal: 'SIGKILL' })
}
