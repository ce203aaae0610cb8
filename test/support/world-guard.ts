import { rmdirSync } from 'node:fs'
import { join } from 'node:path'
import { isSpoiled, knownHomes, leftoverFolders, removeHomes } from './home.ts'
import { openBooks, tempFoldersOf } from './ledger-file.ts'
import { fileMark } from './mark.ts'
import { cgroupsOf, describe, folders, isMarked, isOfHome, processesWhere, type Seen, seen, waitUntil } from './world.ts'

/** The checks of the two guards, `guard-every-test.ts` and `guard-every-file.ts`. They share no code with `src/`. */

/** Time for a sentinel that was dismissed, or that finishes a recovery, to exit. */
const patienceMs = Number(process.env.EBB_TEST_PATIENCE_MS ?? 15_000)

/** Fails when anything of a test file is left: processes, cgroups, open intents, or folders for temporary files. */
export async function requireCleanFile(): Promise<void> {
  await requireCleanWorld(fileMark, [...knownHomes().keys()])
  const left = leftoverFolders()
  removeHomes(left)
  if (left.length > 0) throw new Error(`Temporary folders were left behind: ${left.join(', ')}`)
}

/** Waits until no process, cgroup, open intent or temp folder of the mark and the homes is left. Ends what stays, and throws with its names. */
export async function requireCleanWorld(mark: string, homes: readonly string[]): Promise<void> {
  const leftovers = (): readonly string[] => [
    ...processesLeft(mark, homes).map((found) => `process ${describe(found)}`),
    ...cgroupsLeft(homes).map((directory) => `cgroup ${directory}`),
    ...homes.flatMap((home) => intents(home)).map((intent) => `intent ${intent}`),
    ...homes.flatMap((home) => tempFolders(home)).map((folder) => `temp folder ${folder}`),
  ]
  try {
    await waitUntil(leftovers, patienceMs, 'the test leaves nothing behind')
  } catch (error) {
    endAll(processesLeft(mark, homes))
    for (const directory of cgroupsLeft(homes)) removeCgroup(directory)
    throw error
  } finally {
    removeHomes(homes)
  }
}

/** Reads the process list once for the mark and all homes, because there are thousands of tests. */
function processesLeft(mark: string, homes: readonly string[]): readonly Seen[] {
  const known = knownHomes()
  return processesWhere((found) => isMarked(found, mark) || homes.some((home) => isOfHome(found, home, known.get(home))))
}

function cgroupsLeft(homes: readonly string[]): readonly string[] {
  const known = knownHomes()
  // A home that never became an installation has no cgroup.
  return homes.flatMap((home) => cgroupsOf(known.get(home)))
}

/** Open intents of a home. Only a home whose database the test made unreadable on purpose (`spoil`) is not read. */
function intents(home: string): readonly string[] {
  if (isSpoiled(home)) return []
  try {
    return openBooks(home)
  } catch (error) {
    return [`unknown: ${String(error)}`]
  }
}

/** Temp folders of a home. Those of a home without a readable database are left to a reaper. */
function tempFolders(home: string): readonly string[] {
  return isSpoiled(home) ? [] : tempFoldersOf(home)
}

/** Ends processes that carry the test's mark. The test has failed already; the next one must not fail for the same processes. */
function endAll(left: readonly Seen[]): void {
  for (const { pid, startTime } of left) {
    if (seen(pid)?.startTime !== startTime) continue
    try {
      process.kill(pid, 'SIGKILL')
    } catch {
      // The process ended meanwhile (ESRCH).
    }
  }
}

function removeCgroup(directory: string): void {
  for (const name of folders(directory)) removeCgroup(join(directory, name))
  try {
    rmdirSync(directory)
  } catch {
    // A process in the cgroup is still dying. The error of the caller names it.
  }
}
