import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { type Incarnation, incarnationId } from '../../../src/core/model/identity.ts'
import { openHost } from '../../../src/host/host.ts'
import { procTable, readEntry } from '../../../src/host/processes/proc.ts'
import { ebb, nodeProgram, temporaryHome } from '../../support/home.ts'
import { leftInHome, openBooks } from '../../support/ledger-file.ts'
import { firstLine, otherArguments } from '../../support/other-supervisor.ts'
import { needs } from '../../support/real.ts'
import { seen, waitUntil } from '../../support/world.ts'

/** Host.vitality: whether the supervisor with an id is alive. A wrong `dead` would kill agents in use, a wrong `alive` would leak them. */

const host = openHost('a1b2c3d4e5f6', procTable)
const of = (more: Partial<Incarnation>): string => incarnationId({ ...host.incarnation, ...more })

async function withChild(argv: readonly [string, ...string[]], use: (child: ChildProcess, id: string) => Promise<void>): Promise<void> {
  const child = spawn(argv[0], argv.slice(1), { stdio: 'ignore' })
  await once(child, 'spawn')
  const pid = child.pid ?? 0
  try {
    await use(child, of({ pid, startTime: seen(pid)?.startTime ?? '' }))
  } finally {
    const gone = child.exitCode === null && child.signalCode === null ? once(child, 'exit') : undefined
    child.kill('SIGKILL')
    await gone
  }
}

describe('Host.vitality', () => {
  it('own incarnation is alive, with the pid, start time and boot id of the kernel', () => {
    expect(host.vitality(host.incarnationId)).toBe('alive')
    expect(host.incarnation).toMatchObject({ pid: process.pid, startTime: seen(process.pid)?.startTime })
    expect(host.incarnation.bootId).toBe(readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim())
  })

  it('another process is alive until it ends, then dead', async () => {
    let id = ''
    await withChild(['sleep', '1000'], async (_child, childId) => {
      id = childId
      expect(host.vitality(id)).toBe('alive')
    })
    expect(host.vitality(id)).toBe('dead')
  })

  it('a stopped process is alive', async () => {
    await withChild(['sleep', '1000'], async (child, id) => {
      child.kill('SIGSTOP')
      await waitUntil(() => seen(child.pid ?? 0)?.state === 'T', 30_000, 'it is stopped')
      expect(host.vitality(id)).toBe('alive')
    })
  })

  it('is dead when the process with the pid has another start time', () => {
    const { startTime } = host.incarnation
    expect(host.vitality(of({ startTime: String(Number(startTime) - 1) }))).toBe('dead')
    expect(host.vitality(of({ startTime: `${startTime}0` }))).toBe('dead')
  })

  it('a zombie is dead', async () => {
    // The child of the shell ends, and the sleep that replaced the shell never reaps it.
    await withChild(['sh', '-c', 'true & exec sleep 1000'], async (child) => {
      const zombie = await zombieOf(child.pid ?? 0)
      expect(host.vitality(of({ pid: zombie.pid, startTime: zombie.startTime }))).toBe('dead')
    })
  })

  it('a supervisor of an earlier boot is dead', () => {
    const before = of({ bootId: '00000000-0000-4000-8000-000000000000' })
    expect([host.vitality(before), host.isThisBoot(before)]).toEqual(['dead', false])
    expect(host.isThisBoot(host.incarnationId)).toBe(true)
  })

  it('is unknown for another pid namespace and for an invalid id (G4)', () => {
    expect(host.vitality(of({ pidNamespace: '1' }))).toBe('unknown')
    expect(host.vitality(of({ pidNamespace: '1', pid: 2 ** 22 }))).toBe('unknown')
    expect(host.vitality('')).toBe('unknown')
    expect(host.vitality('../../etc')).toBe('unknown')
  })

  /** `seen` leaves out zombies, so they are read with `readEntry`. */
  async function zombieOf(parent: number): Promise<{ pid: number; startTime: string }> {
    let found: { pid: number; startTime: string } | undefined
    await waitUntil(
      () => {
        const children = readFileSync(`/proc/${parent}/task/${parent}/children`, 'utf8').split(' ').filter(Boolean).map(Number)
        found = children.map((pid) => readEntry(pid)).find((entry) => entry?.state === 'Z')
        return found !== undefined
      },
      30_000,
      'there is a zombie',
    )
    return found ?? expect.unreachable()
  }
})

describe('a supervisor that is a zombie', () => {
  needs('cgroup')

  it('is recovered like any other killed supervisor', async () => {
    const home = temporaryHome()
    const words = otherArguments({ home, containment: 'cgroup', argv: ['sleep', '1000'] }).map((word) => `'${word}'`)
    const parent = spawn('sh', ['-c', `'${nodeProgram}' ${words.join(' ')} & exec sleep 1000`], { stdio: ['ignore', 'pipe', 'inherit'] })
    const gone = once(parent, 'exit')
    try {
      const { tree, incarnation } = await firstLine(parent)
      const pid = Number(incarnation.split('-')[2])
      process.kill(pid, 'SIGKILL')
      await waitUntil(() => readEntry(pid)?.state === 'Z', 30_000, 'the supervisor is a zombie')
      expect((await ebb(['recover'], { home })).code).toBe(0)
      await waitUntil(() => [...openBooks(home), ...leftInHome(home)], 30_000, 'the ledger entries are closed')
      expect(seen(tree)).toBeUndefined()
      expect(readEntry(pid)?.state).toBe('Z')
    } finally {
      parent.kill('SIGKILL')
      await gone
    }
  })
})
