import { mkdirSync, readdirSync, readFileSync, readlinkSync, rmdirSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { CgroupKnock } from '../../../src/host/containment/cgroup-knock.ts'
import { needs } from '../../support/real.ts'
import { ownCgroup2, waitUntil } from '../../support/world.ts'

/** Whoever knocks goes nowhere: the wait for entering a cgroup is all that it begins. */

needs('cgroup')

const places = (): string => readFileSync('/proc/self/cgroup', 'utf8')

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
  // Of the knock before, the descriptor is closed a moment before anybody here is told.
  await waitUntil(knocks, 5_000, 'it knocks')
  await waitUntil(() => !isOpen(path), 5_000, 'the knock is over')
}

it('at its own cgroup it stays there, and knocks as often as it likes', async () => {
  const before = places()
  const knock = new CgroupKnock()
  for (let n = 0; n < 3; n++) await knocked(knock, ownCgroup2() ?? '')
  expect(places()).toBe(before)
})

it('at another cgroup, which is where it once was for one who was moved, it is not let in', async () => {
  const before = places()
  const other = join(ownCgroup2() ?? '', `ebb-knock${process.pid}`)
  mkdirSync(other)
  try {
    await knocked(new CgroupKnock(), other)
    expect(readFileSync(join(other, 'cgroup.threads'), 'utf8')).toBe('')
    expect(places()).toBe(before)
  } finally {
    rmdirSync(other)
  }
})

it('at one that is not there it does nothing, and goes on to the next', async () => {
  const knock = new CgroupKnock()
  knock.at(join(ownCgroup2() ?? '', 'ebb-nosuch'))
  await knocked(knock, ownCgroup2() ?? '')
})
