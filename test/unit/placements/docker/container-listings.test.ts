import { describe, expect, it } from 'vitest'
import { Listings, type Wanted } from '../../../../src/placements/docker/listings.ts'
import type { SeenContainer } from '../../../../src/placements/docker/ports.ts'

const seen = (resource: string, installation = 'ours'): SeenContainer => ({
  ...{ id: `id-${resource}`, name: `ebb-${resource}`, state: 'running' },
  labels: { installation, resource },
})

/** A daemon that answers when it is told to, with the world as it is when it was asked. */
function slowDaemon(world: SeenContainer[]) {
  const asked: { readonly wanted: Wanted; readonly answer: () => void; readonly fail: () => void }[] = []
  const listings = new Listings('installation', (wanted) => {
    const now = [...world]
    const { promise, resolve, reject } = Promise.withResolvers<readonly SeenContainer[]>()
    const fits = (one: SeenContainer): boolean => Object.entries(wanted.labels).every(([name, value]) => one.labels[name] === value)
    asked.push({ wanted, answer: () => resolve(now.filter(fits)), fail: () => reject(new Error('no answer')) })
    return promise
  })
  return { asked, listings, settled: async () => await new Promise((resolve) => setImmediate(resolve)) }
}

const of = (resource: string): Wanted => ({ labels: { installation: 'ours', resource } })

describe('looks at containers at the same moment', () => {
  it('alone asks for its own', async () => {
    const { asked, listings } = slowDaemon([seen('a'), seen('b')])
    const one = listings.ask(of('a'))
    expect(asked.map(({ wanted }) => wanted)).toEqual([of('a')])
    asked[0]?.answer()
    expect(await one).toEqual([seen('a')])
  })

  it('share the listing that begins after they asked, never one that began before', async () => {
    const world = [seen('a'), seen('b'), seen('c')]
    const { asked, listings, settled } = slowDaemon(world)
    const first = listings.ask(of('a'))
    const others = [listings.ask(of('b')), listings.ask(of('c'))]
    // Gone since the first one asked: who asked later must not see it any more.
    world.splice(1, 1)
    expect(asked).toHaveLength(1)
    asked[0]?.answer()
    await settled()
    expect(asked.map(({ wanted }) => wanted.labels)).toEqual([{ installation: 'ours', resource: 'a' }, { installation: 'ours' }])
    asked[1]?.answer()
    expect(await first).toEqual([seen('a')])
    expect(await Promise.all(others)).toEqual([[], [seen('c')]])
  })

  it('all hear of a listing that failed, and the next is made all the same', async () => {
    const { asked, listings, settled } = slowDaemon([seen('a')])
    const all = ['a', 'a', 'a'].map((one) => listings.ask(of(one)))
    const outcomes = Promise.allSettled(all)
    asked[0]?.fail()
    await settled()
    asked[1]?.fail()
    expect((await outcomes).map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected'])
    const again = listings.ask(of('a'))
    asked[2]?.answer()
    expect(await again).toEqual([seen('a')])
  })

  it('see nothing of another installation', async () => {
    const { asked, listings, settled } = slowDaemon([seen('a'), seen('a', 'theirs')])
    const first = listings.ask(of('x'))
    const other = listings.ask(of('a'))
    asked[0]?.answer()
    await settled()
    asked[1]?.answer()
    await first
    expect(await other).toEqual([seen('a')])
  })
})
