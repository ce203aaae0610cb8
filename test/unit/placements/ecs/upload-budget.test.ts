import { mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { ClientPool } from '../../../../src/placements/ecs/clients.ts'
import { awsEffects } from '../../../../src/placements/ecs/effects.ts'
import { VirtualClock } from '../../../support/virtual-clock.ts'

/** How long an upload may take: by its size, as whoever waits for it does. */

/** An upload that never ends. */
class Stalled {
  async done(): Promise<void> {
    await new Promise(() => {})
  }
  async abort(): Promise<void> {}
}

test.each([
  ['an empty file', 0, 60],
  ['a gigabyte', 1_000_000_000, 1_060],
])('%s is given up after a time that follows from its size', async (_name, bytes, seconds) => {
  const folder = mkdtempSync(join(tmpdir(), 'ebb-upload-'))
  try {
    const file = join(folder, 'stdout.log')
    writeFileSync(file, '')
    // A hole: it takes no room.
    truncateSync(file, bytes)
    const clock = new VirtualClock()
    const pool = { for: async () => ({ transfers: {}, packages: { storage: { Upload: Stalled } } }) } as unknown as ClientPool
    const call = { signal: new AbortController().signal, clock }
    const began = clock.now()
    const work = awsEffects(pool).upload({ bucket: 'b', key: 'k', metadata: {} }, file, call)
    await expect(clock.run(work)).rejects.toMatchObject({ trouble: 'unreachable' })
    expect(Math.round((clock.now() - began) / 1_000)).toBe(seconds)
  } finally {
    rmSync(folder, { recursive: true })
  }
})
