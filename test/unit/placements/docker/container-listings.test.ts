import { describe, expect, it } from 'vitest'
import { Listings, type Wanted } from '../../../../src/placements/docker/listings.ts'
import type { SeenContainer } from '../../../../src/placements/docker/ports.ts'

const seen = (resource: string, installation = 'ours'): SeenContainer => ({
  ...{ id: `id-${resource}`, name: `ebb-${resource}`, state: 'running' },
  labels: { installation, resource },
})

/** A daemon whose listings show the containers at the time of the call, and answer when the test says so. */
function slowDaemon(world: SeenContainer[]) {
  const requests: { readonly wanted: Wanted; readonly answer: () => void; readonly fail: () => void }[] = []
  const listings = new Listings('installation', (wanted) => {
    const now = [...world]
    const { promise, resolve, reject } = Promise.withResolvers<readonly SeenContainer[]>()
    const fits = (container: SeenContainer): boolean =>
      Object.entries(wanted.labels).every(([name, value]) => container.labels[name] === value)
    requests.push({ wanted, answer: () => resolve(now.filter(fits)), fail: () => reject(new Error('no answer')) })
    return promise
  })
  return { requests, listings, settled: async () => await new Promise((resolve) => setImmediate(resolve)) }
}

const of = (resource: string): Wanted => ({ labels: { installation: 'ours', resource } })

describe('docker: concurrent observations of containers', () => {
  it('a single one lists only its own containers', async () => {
    const { requests, listings } = slowDaemon([seen('a'), seen('b')])
    const observation = listings.ask(of('a'))
    expect(requests.map(({ wanted }) => wanted)).toEqual([of('a')])
    requests[0]?.answer()
    expect(await observation).toEqual([seen('a')])
  })

  it('share the listing that begins after their calls, never one that began before', async () => {
    const world = [seen('a'), seen('b'), seen('c')]
    const { requests, listings, settled } = slowDaemon(world)
    const first = listings.ask(of('a'))
    const others = [listings.ask(of('b')), listings.ask(of('c'))]
    // The container is removed after the first call, so the later calls must not see it.
    world.splice(1, 1)
    expect(requests).toHaveLength(1)
    requests[0]?.answer()
    await settled()
    expect(requests.map(({ wanted }) => wanted.labels)).toEqual([{ installation: 'ours', resource: 'a' }, { installation: 'ours' }])
    requests[1]?.answer()
    expect(await first).toEqual([seen('a')])
    expect(await Promise.all(others)).toEqual([[], [seen('c')]])
  })

  it('all fail with a failed listing, and the next one makes a new listing', async () => {
    const { requests, listings, settled } = slowDaemon([seen('a')])
    const all = ['a', 'a', 'a'].map((resource) => listings.ask(of(resource)))
    const outcomes = Promise.allSettled(all)
    requests[0]?.fail()
    await settled()
    requests[1]?.fail()
    expect((await outcomes).map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected'])
    const again = listings.ask(of('a'))
    requests[2]?.answer()
    expect(await again).toEqual([seen('a')])
  })

  it('see no containers of another installation', async () => {
    const { requests, listings, settled } = slowDaemon([seen('a'), seen('a', 'theirs')])
    const first = listings.ask(of('x'))
    const other = listings.ask(of('a'))
    requests[0]?.answer()
    await settled()
    requests[1]?.answer()
    await first
    expect(await other).toEqual([seen('a')])
  })
})
