import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { describe, expect, it } from 'vitest'
import { fixture } from '../../support/fixtures.ts'
import { ebbProgram, temporaryHome } from '../../support/home.ts'
import { openBooks } from '../../support/ledger-file.ts'
import { NamespaceShell } from '../../support/namespace-shell.ts'
import { needs } from '../../support/real.ts'
import { processes, type Seen, seen, survivors, waitUntil } from '../../support/world.ts'

/** G10: a pid in the ledger does not identify a process; by the time of the recovery another process may have it. */

interface Recorded {
  readonly pid: number
  readonly startTime: string
}

describe('a reused pid', () => {
  needs('root', 'unshare', 'gcc')

  it('recovery does not end a foreign process that has the pid of an ended command', async () => {
    const home = temporaryHome()
    await using shell = new NamespaceShell({ EBB_HOME: home })
    const supervisor = await shell.run(`${ebbProgram} exec --containment scan -- ${fixture('waits')} </dev/null >/dev/null & echo $!`)
    await waitUntil(() => openBooks(home).some((line) => line.startsWith('held')), 15_000, 'the command is held')
    const main = recordedMain(home)
    const sentinel = findSentinel(home)

    // The sentinel is stopped, so that it does not recover first. A shell reaps orphans while it waits for its own child.
    process.kill(sentinel.pid, 'SIGSTOP')
    await shell.run(`kill -KILL ${supervisor}; kill -KILL ${main.pid}; while [ -e /proc/${main.pid} ]; do /bin/true; done`)

    await shell.startAs(main.pid, `env -u EBB_HOME ${fixture('waits')} stranger`)
    const stranger = await strangerStarted()
    process.kill(sentinel.pid, 'SIGKILL')
    expect(await shell.run(`${ebbProgram} recover >/dev/null; echo $?`)).toBe('0')

    expect(openBooks(home)).toEqual([])
    expect(seen(stranger.pid)?.startTime).toBe(stranger.startTime)
  })
})

/** The main process in the ledger, with its pid inside the namespace. */
function recordedMain(home: string): Recorded {
  const db = new DatabaseSync(join(home, 'ebb.db'), { readOnly: true })
  try {
    return JSON.parse(String(db.prepare('SELECT detail FROM resource').get()?.detail)) as Recorded
  } finally {
    db.close()
  }
}

/** The sentinel, with its pid outside the namespace. */
function findSentinel(home: string): Seen {
  const found = survivors(home).find(({ argv }) => argv.startsWith('ebb-sentinel'))
  if (!found) throw new Error('There is no sentinel.')
  return found
}

/** Waits until the shell has replaced itself by the program `waits`. The shell prints its pid before that. */
async function strangerStarted(): Promise<Seen> {
  let found: readonly Seen[] = []
  const hasStarted = (): boolean => {
    found = processes().filter(({ argv }) => argv.endsWith('waits\0stranger\0'))
    return found.length > 0
  }
  await waitUntil(hasStarted, 15_000, 'the foreign process has started')
  return found[0] as Seen
}
