import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { ebb, startEbb, temporaryHome } from '../support/home.ts'
import { openBooks } from '../support/ledger-file.ts'
import { needs } from '../support/real.ts'
import { processes, type Seen, waitUntil } from '../support/world.ts'

/**
 * G9: between fork and exec a child carries no mark and stands in no cgroup, so a recovery in that moment cannot see
 * it. It must die at the door that the recovery has taken away. strace makes the moment long enough.
 */
const momentMs = 3_000

describe('a child that was forked just before its supervisor was killed', () => {
  needs('strace', 'cgroup')

  it('dies at the door when a recovery was there first, whatever the containment', async () => {
    await Promise.all((['cgroup', 'scan'] as const).map(requireDeathAtTheDoor))
  })
})

async function requireDeathAtTheDoor(containment: 'cgroup' | 'scan'): Promise<void> {
  const home = temporaryHome()
  const proof = join(temporaryHome(), 'it-ran')
  // Nobody is held up but who becomes a shell: the sentinel, and the command at its door.
  const inject = ['-P', '/bin/sh', '-e', 'trace=execve', '-e', `inject=execve:delay_enter=${momentMs * 1_000}:when=1`]
  const through = ['strace', '-f', '-qq', '--seccomp-bpf', '-o', '/dev/null', ...inject]
  const run = startEbb(['exec', '--containment', containment, '--', 'touch', proof], { home, through, deadlineMs: 50_000 })
  await waitUntil(() => openBooks(home).some((line) => line.startsWith('intended')), 30_000, 'the intent is written')
  const supervisor = findSupervisor(run.mark)
  const child = await forkedBy(supervisor.pid)
  // It waits in strace's hands until the exec, and then before the first line of its program, however late the recovery is.
  process.kill(child.pid, 'SIGSTOP')
  process.kill(supervisor.pid, 'SIGKILL')
  try {
    expect(await ebb(['recover'], { home })).toMatchObject({ code: 0 })
    await waitUntil(() => openBooks(home), 15_000, 'the books are closed')
  } finally {
    goOn(child)
  }
  await run.ended
  expect(existsSync(proof)).toBe(false)
}

/** A child that has been forked and has not reached its exec looks like the supervisor, and may have the lower pid. */
function findSupervisor(mark: string): Seen {
  const alike = processes().filter(({ environ, argv }) => environ.includes(mark) && argv.includes('--disable-warning'))
  const found = alike.find(({ ppid }) => !alike.some(({ pid }) => pid === ppid))
  if (!found) throw new Error('There is no supervisor.')
  return found
}

/** A child that still is what its parent is: the same program with the same arguments. */
async function forkedBy(pid: number): Promise<Seen> {
  let children: readonly Seen[] = []
  const look = (): boolean => {
    const all = processes()
    const parent = all.find((one) => one.pid === pid)
    children = all.filter((one) => one.ppid === pid && one.argv === parent?.argv)
    return children.length > 0
  }
  await waitUntil(look, 15_000, 'the command is forked')
  return children[0] as Seen
}

/** A recovery that came after the exec has seen its mark, and ended it. */
function goOn({ pid }: Seen): void {
  try {
    process.kill(pid, 'SIGCONT')
  } catch (error) {
    expect(error).toMatchObject({ code: 'ESRCH' })
  }
}
