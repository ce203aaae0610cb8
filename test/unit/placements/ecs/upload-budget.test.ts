import { mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { ClientPool } from '../../../../src/placements/ecs/clients.ts'
import { awsEffects } from '../../../../src/placements/ecs/effects.ts'
import { VirtualClock } from '../../../support/virtual-clock.ts'

/** The time limit of an upload, which depends on its size. */

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
])('upload: %s is given up after a time that depends on its size', async (_name, bytes, seconds) => {
  const folder = mkdtempSync(join(tmpdir(), 'ebb-upload-'))
  try {
    const file = join(folder, 'stdout.log')
    writeFileSync(file, '')
    // A sparse file, which takes no space.
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
