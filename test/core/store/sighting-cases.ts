import { expect, it } from 'vitest'
import type { Store } from './connections.ts'

export function sightingCases(store: Store): void {
  it('sight: counts every sighting, and keeps the time of the first', async () => {
    expect(await store.ledger.sight('log', '/a', 'boot', 1_000.5)).toEqual({
      kind: 'log',
      name: '/a',
      bootId: 'boot',
      firstSeenMs: 1_000.5,
      count: 1,
    })
    await store.ledger.sight('log', '/a', 'boot', 2_000)
    expect(await store.ledger.sight('log', '/a', 'boot', 3_000)).toMatchObject({ firstSeenMs: 1_000.5, count: 3 })
  })

  it('sight: another name and another kind have their own counts', async () => {
    await store.ledger.sight('log', '/a', 'boot', 1_000)
    expect(await store.ledger.sight('log', '/b', 'boot', 2_000)).toMatchObject({ firstSeenMs: 2_000, count: 1 })
    expect(await store.ledger.sight('file', '/a', 'boot', 3_000)).toMatchObject({ firstSeenMs: 3_000, count: 1 })
  })

  it('sight: the age and the count restart after a reboot', async () => {
    await store.ledger.sight('log', '/a', 'boot', 9_000)
    expect(await store.ledger.sight('log', '/a', 'next boot', 10)).toEqual({
      kind: 'log',
      name: '/a',
      bootId: 'next boot',
      firstSeenMs: 10,
      count: 1,
    })
  })

  it('sight: the sightings of two supervisors add up', async () => {
    const other = await store.reopen()
    await Promise.all([store.ledger.sight('log', '/a', 'boot', 1), other.sight('log', '/a', 'boot', 1)])
    expect(await store.ledger.sight('log', '/a', 'boot', 5)).toMatchObject({ firstSeenMs: 1, count: 3 })
  })

  it('forgetSightings: deletes all sightings except the given ones', async () => {
    await store.ledger.sight('log', '/a', 'boot', 1)
    await store.ledger.sight('log', '/b with a blank', 'boot', 1)
    await store.ledger.forgetSightings(new Set(['log /b with a blank']))
    expect(await store.ledger.sight('log', '/a', 'boot', 2)).toMatchObject({ count: 1 })
    expect(await store.ledger.sight('log', '/b with a blank', 'boot', 2)).toMatchObject({ count: 2 })
  })
}
