import { mkdirSync, readdirSync, readFileSync, readlinkSync, rmdirSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { CgroupKnock } from '../../../src/host/containment/cgroup-knock.ts'
import { realEffects } from '../../../src/host/effects.ts'
import { needs } from '../../support/real.ts'
import { ownCgroup2, waitUntil } from '../../support/world.ts'

/** `CgroupKnock` starts the kernel's delay before a move into a cgroup, and moves no thread. */

needs('cgroup')

const ownCgroups = (): string => readFileSync('/proc/self/cgroup', 'utf8')

function isOpen(path: string): boolean {
  return readdirSync('/proc/self/fd').some((descriptor) => {
    try {
      return readlinkSync(`/proc/self/fd/${descriptor}`) === path
    } catch {
      return false
    }
  })
}

async function knocked(knock: CgroupKnock, directory: string): Promise<void> {
  const path = join(directory, 'cgroup.threads')
  const knocks = (): boolean => {
    knock.at(directory)
    return isOpen(path)
  }
  // While a previous write is still running, `knock.at` does nothing. So the test calls `at` until the file is open.
  await waitUntil(knocks, 5_000, 'it knocks')
  await waitUntil(() => !isOpen(path), 5_000, 'the knock is over')
}

it('CgroupKnock at its own cgroup moves no thread, and can be repeated', async () => {
  const before = ownCgroups()
  const knock = new CgroupKnock(realEffects)
  for (let n = 0; n < 3; n++) await knocked(knock, ownCgroup2() ?? '')
  expect(ownCgroups()).toBe(before)
})

it('CgroupKnock at another cgroup, as after this process was moved, moves no thread there', async () => {
  const before = ownCgroups()
  const other = join(ownCgroup2() ?? '', `ebb-knock${process.pid}`)
  mkdirSync(other)
  try {
    await knocked(new CgroupKnock(realEffects), other)
    expect(readFileSync(join(other, 'cgroup.threads'), 'utf8')).toBe('')
    expect(ownCgroups()).toBe(before)
  } finally {
    rmdirSync(other)
  }
})

it('CgroupKnock at a missing cgroup does nothing, and works at the next one', async () => {
  const knock = new CgroupKnock(realEffects)
  knock.at(join(ownCgroup2() ?? '', 'ebb-nosuch'))
  await knocked(knock, ownCgroup2() ?? '')
})
