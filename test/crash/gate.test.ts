import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { ebb, startEbb, temporaryHome } from '../support/home.ts'
import { openBooks } from '../support/ledger-file.ts'
import { needs } from '../support/real.ts'
import { processes, type Seen, waitUntil } from '../support/world.ts'

/**
 * G9: between fork and exec a child carries no tag and is in no cgroup, so a recovery cannot see it at that moment. The child must exit at
 * its gate, which the recovery has removed. strace makes the moment long enough.
 */
const momentMs = 3_000

describe('gate: a child forked just before its supervisor was killed', () => {
  needs('strace', 'cgroup')

  it('dies at its gate when a recovery has removed the gate, under cgroup and scan', async () => {
    await Promise.all((['cgroup', 'scan'] as const).map(requireDeathAtGate))
  })
})

async function requireDeathAtGate(containment: 'cgroup' | 'scan'): Promise<void> {
  const home = temporaryHome()
  const proof = join(temporaryHome(), 'it-ran')
  // strace delays only the exec of a shell. The sentinel starts as a shell, and so does the command at its gate.
  const inject = ['-P', '/bin/sh', '-e', 'trace=execve', '-e', `inject=execve:delay_enter=${momentMs * 1_000}:when=1`]
  const through = ['strace', '-f', '-qq', '--seccomp-bpf', '-o', '/dev/null', ...inject]
  const run = startEbb(['exec', '--containment', containment, '--', 'touch', proof], { home, through, deadlineMs: 50_000 })
  await waitUntil(() => openBooks(home).some((line) => line.startsWith('intended')), 30_000, 'the intent is written')
  const supervisor = findSupervisor(run.mark)
  const child = await forkedBy(supervisor.pid)
  // SIGSTOP holds the child at the exec, or before the first line of its program, however late the recovery is.
  process.kill(child.pid, 'SIGSTOP')
  process.kill(supervisor.pid, 'SIGKILL')
  try {
    expect(await ebb(['recover'], { home })).toMatchObject({ code: 0 })
    await waitUntil(() => openBooks(home), 15_000, 'the ledger is closed')
  } finally {
    goOn(child)
  }
  await run.ended
  expect(existsSync(proof)).toBe(false)
}

/** The supervisor. A child between fork and exec has the same arguments and may have the lower pid. */
function findSupervisor(mark: string): Seen {
  const alike = processes().filter(({ environ, argv }) => environ.includes(mark) && argv.includes('--disable-warning'))
  const found = alike.find(({ ppid }) => !alike.some(({ pid }) => pid === ppid))
  if (!found) throw new Error('There is no supervisor.')
  return found
}

/** A child that has not called exec yet: it has the same arguments as its parent. */
async function forkedBy(pid: number): Promise<Seen> {
  let children: readonly Seen[] = []
  const isForked = (): boolean => {
    const all = processes()
    const parent = all.find((process) => process.pid === pid)
    children = all.filter((process) => process.ppid === pid && process.argv === parent?.argv)
    return children.length > 0
  }
  await waitUntil(isForked, 15_000, 'the command is forked')
  return children[0] as Seen
}

/** Continues the child. A recovery that came after its exec has found its tag and ended it (ESRCH). */
function goOn({ pid }: Seen): void {
  try {
    process.kill(pid, 'SIGCONT')
  } catch (error) {
    expect(error).toMatchObject({ code: 'ESRCH' })
  }
}
