import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { type Decoy, decoyProcess, disturbed, placeNeighbours } from '../support/decoys.ts'
import { type Ended, type RunningEbb, startEbb, temporaryHome } from '../support/home.ts'
import { installationOf, leftInHome, openBooks } from '../support/ledger-file.ts'
import { currentMark, markVariable } from '../support/mark.ts'
import { needs } from '../support/real.ts'
import { cgroupsOf, processesOfHome, type Seen, describe as show, survivors, waitUntil } from '../support/world.ts'
import { type Animal, type ContainmentName, type Ending, zoo } from '../support/zoo.ts'

/** G2, G3, G9, G10: every animal of the zoo under every containment that claims to hold it, ended in every way. */

const startDeadlineMs = 20_000
/** The promise is one second on an idle machine; this bounds a noisy one. */
const sentinelDeadlineMs = 10_000
const usualCodes: Record<Ending, number | null> = { 'its own exit': 0, SIGTERM: 143, timeout: 124, SIGKILL: null }

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

for (const containment of ['cgroup', 'subreaper', 'scan'] as const) {
  describe(`under ${containment}`, () => {
    needs('gcc', containment)
    for (const animal of zoo.filter(({ heldBy }) => heldBy.includes(containment))) {
      it(`${animal.what} is released`, async () => {
        await Promise.all(animal.endings.map((ending) => visit(animal, containment, ending)))
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
}

async function visit(animal: Animal, containment: ContainmentName, ending: Ending): Promise<void> {
  // The fixtures write it on their command lines too.
  const mark = `${currentMark()}${ending.replaceAll(' ', '')}-`
  const home = temporaryHome()
  const words = [...animal.command(containment), mark]
  const decoy = await decoyProcess('a process with the same command line', [mark])
  // Long enough for the tree to stand before its time is up.
  const limit = ending === 'timeout' ? ['--timeout', '2s'] : []
  const run = startEbb(['exec', '--containment', containment, '--grace', '300ms', ...limit, '--', ...words], {
    home,
    env: { [markVariable]: mark },
    report: join(home, 'report.json'),
  })
  const one: Visit = { animal, containment, ending, home, run, decoy }
  try {
    await run.says('ready')
    const stands = waitUntil(() => animal.stands(treeOf(one)), startDeadlineMs, `${animal.what} stands`)
    await Promise.race([stands, run.ended.then(tooEarly)])
    if (ending === 'its own exit') run.endInput()
    else if (ending !== 'timeout') run.signal(ending)
    await (ending === 'SIGKILL' ? requireCleanedBySentinel(one) : requireReleased(one))
    expect(disturbed([decoy])).toEqual([])
  } finally {
    await decoy.remove()
  }
}

function tooEarly(ended: Ended): never {
  throw new Error(`It ended before its tree was seen: ${JSON.stringify(ended)}`)
}

function treeOf({ run, decoy }: Visit): readonly Seen[] {
  return survivors(run.mark).filter(({ pid }) => pid !== run.pid && pid !== decoy.process.pid)
}

/** At the moment of its exit, not a while later: a supervisor that says "released" has seen it. */
async function requireReleased(one: Visit): Promise<void> {
  const { animal, containment, ending, home, run } = one
  const ended = await run.ended
  const left = treeOf(one)
  const cgroups = cgroupsOf(installationOf(home) ?? '')
  expect({ left: left.map(show), cgroups, inHome: leftInHome(home) }).toEqual({ left: [], cgroups: [], inHome: [] })
  expect({ code: ended.code, signal: ended.signal, stderr: ended.stderr }).toEqual({
    code: animal.codes?.[ending] ?? usualCodes[ending],
    signal: null,
    stderr: '',
  })
  expect(ended.report).toMatchObject({ success: true, errors: [], gaveUp: [] })
  const [tree] = ended.report?.resources ?? []
  expect(tree).toMatchObject({ kind: 'process-tree', outcome: 'released', proof: { strength: containment === 'scan' ? 'scan' : 'kernel' } })
  const steps = animal.steps?.[ending]
  if (steps) expect(tree?.steps.map(({ step }) => step)).toEqual(steps)
  expect(openBooks(home)).toEqual([])
}

async function requireCleanedBySentinel(one: Visit): Promise<void> {
  const { home, run } = one
  await waitUntil(
    () => [...treeOf(one), ...processesOfHome(home, installationOf(home))].map(show),
    sentinelDeadlineMs,
    'the sentinel cleans up',
  )
  expect({ cgroups: cgroupsOf(installationOf(home) ?? ''), inHome: leftInHome(home), books: openBooks(home) }).toEqual({
    cgroups: [],
    inHome: [],
    books: [],
  })
  expect(await run.ended).toMatchObject({ signal: 'SIGKILL' })
}
