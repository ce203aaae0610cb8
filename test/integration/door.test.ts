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
const momentMs = 1_500

describe('a child that was forked just before its supervisor was killed', () => {
  needs('strace', 'cgroup')

  it('dies at the door when a recovery was there first, whatever the containment', async () => {
    await Promise.all((['cgroup', 'scan'] as const).map(requireDeathAtTheDoor))
  })
})

async function requireDeathAtTheDoor(containment: 'cgroup' | 'scan'): Promise<void> {
  const home = temporaryHome()
  const proof = join(temporaryHome(), 'it-ran')
  const inject = ['-e', 'trace=execve', '-e', `inject=execve:delay_enter=${momentMs * 1_000}:when=1`]
  const through = ['strace', '-f', '-qq', '--seccomp-bpf', '-o', '/dev/null', ...inject]
  const run = startEbb(['exec', '--containment', containment, '--', 'touch', proof], { home, through })
  await waitUntil(() => openBooks(home).some((line) => line.startsWith('intended')), 15_000, 'the intent is written')
  const supervisor = findSupervisor(run.mark)
  await waitUntil(() => isForking(supervisor.pid), 5_000, 'the command is forked')
  process.kill(supervisor.pid, 'SIGKILL')

  expect(await ebb(['recover'], { home })).toMatchObject({ code: 0 })
  expect(openBooks(home)).toEqual([])
  await run.ended
  expect(existsSync(proof)).toBe(false)
}

function findSupervisor(mark: string): Seen {
  const found = processes().find(({ environ, argv }) => environ.includes(mark) && argv.includes('--disable-warning'))
  if (!found) throw new Error('There is no supervisor.')
  return found
}

/** A child that still is what its parent is: the same program with the same arguments. */
function isForking(pid: number): boolean {
  const all = processes()
  const parent = all.find((one) => one.pid === pid)
  return all.some((one) => one.ppid === pid && one.argv === parent?.argv)
}
