import { rmdirSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, aroundEach } from 'vitest'
import { isSpoiled, knownHomes, leftoverFolders, removeHomes } from './home.ts'
import { openBooks, tempFoldersOf } from './ledger-file.ts'
import { fileMark, markVariable, nextTestMark } from './mark.ts'
import { cgroupsOf, describe, folders, isMarked, isOfHome, processesWhere, type Seen, seen, waitUntil } from './world.ts'

/**
 * After every test of every suite: looks at the world with its own eyes and fails the test that left something. What
 * a file starts for all its tests carries the file's mark and is looked for when the file ends.
 */

/** A sentinel that was dismissed, or is finishing a recovery, gets this long to leave. */
const patienceMs = Number(process.env.EBB_TEST_PATIENCE_MS ?? 15_000)

process.env[markVariable] = fileMark

aroundEach(async (runTest) => {
  const mark = nextTestMark()
  const before = new Set(knownHomes().keys())
  process.env[markVariable] = mark
  try {
    await runTest()
  } finally {
    process.env[markVariable] = fileMark
  }
  await requireCleanWorld(
    mark,
    [...knownHomes().keys()].filter((home) => !before.has(home)),
  )
})

afterAll(async () => {
  await requireCleanWorld(fileMark, [...knownHomes().keys()])
  const folders = leftoverFolders()
  removeHomes(folders)
  if (folders.length > 0) throw new Error(`Temporary folders were left behind: ${folders.join(', ')}`)
})

async function requireCleanWorld(mark: string, homes: readonly string[]): Promise<void> {
  const look = (): readonly string[] => [
    ...processesLeft(mark, homes).map((one) => `process ${describe(one)}`),
    ...cgroupsLeft(homes).map((directory) => `cgroup ${directory}`),
    ...homes.flatMap((home) => intents(home)).map((one) => `intent ${one}`),
    ...homes.flatMap((home) => tempFolders(home)).map((one) => `temp folder ${one}`),
  ]
  try {
    await waitUntil(look, patienceMs, 'the test leaves nothing behind')
  } catch (error) {
    endAll(processesLeft(mark, homes))
    for (const directory of cgroupsLeft(homes)) removeCgroup(directory)
    throw error
  } finally {
    removeHomes(homes)
  }
}

/** One look at the world for the mark and all homes: there are thousands of tests. */
function processesLeft(mark: string, homes: readonly string[]): readonly Seen[] {
  const known = knownHomes()
  return processesWhere((one) => isMarked(one, mark) || homes.some((home) => isOfHome(one, home, known.get(home))))
}

function cgroupsLeft(homes: readonly string[]): readonly string[] {
  const known = knownHomes()
  // One that never became an installation has no cgroup.
  return homes.flatMap((home) => cgroupsOf(known.get(home)))
}

/** Only a test that spoiled its database on purpose, and says so, has no intents to show. */
function intents(home: string): readonly string[] {
  if (isSpoiled(home)) return []
  try {
    return openBooks(home)
  } catch (error) {
    return [`unknown: ${String(error)}`]
  }
}

/** Without its database nobody but a reaper would find them. */
function tempFolders(home: string): readonly string[] {
  return isSpoiled(home) ? [] : tempFoldersOf(home)
}

/** The test has failed already; the next one should not fail for it. They carry our mark, so they are ours to end. */
function endAll(left: readonly Seen[]): void {
  for (const { pid, startTime } of left) {
    if (seen(pid)?.startTime !== startTime) continue
    try {
      process.kill(pid, 'SIGKILL')
    } catch {
      // It went by itself meanwhile.
    }
  }
}

function removeCgroup(directory: string): void {
  for (const name of folders(directory)) removeCgroup(join(directory, name))
  try {
    rmdirSync(directory)
  } catch {
    // Somebody is still dying in it; the message above named it.
  }
}
