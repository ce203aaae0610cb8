import { mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { realEffects } from '../../src/host/effects.ts'
import { TempFolderKind } from '../../src/kinds/temp-folder/kind.ts'
import { Crash, Fuse, fused } from '../support/fuse.ts'
import { ctx, host, intentOf, type Scene, sceneIn } from '../support/temp-folder.ts'

/** G1, G9: a process that dies between any two effects of creating or removing a temp folder leaves only what the next supervisor finds. */

it.each(['before', 'after'] as const)('temp folder: a crash %s any effect leaves what the intent and the symlink find', async (when) => {
  for (let point = 1, isComplete = false; !isComplete; point++) {
    const fuse = new Fuse(point, when)
    const scene = sceneIn(undefined, fused(fuse))
    await live(scene).catch((error: unknown) => {
      if (!(error instanceof Crash)) throw error
    })
    isComplete = !fuse.hasBlown
    await requireFound(scene)
    if (isComplete) expect(point).toBeGreaterThan(4)
  }
})

async function live({ kind, ref, base }: Scene): Promise<void> {
  await kind.create(ref, intentOf(base).spec, ctx)
  mkdirSync(join(ref.path, 'folder'))
  writeFileSync(join(ref.path, 'folder', 'file'), '')
  await kind.release(ref)
}

/**
 * Observes the temp folder as the next supervisor does, which knows the intent. Lists temp folders as a supervisor does that does not know
 * the intent.
 */
async function requireFound({ base, directory }: Scene): Promise<void> {
  const kind = new TempFolderKind({ effects: realEffects, host: { ...host, incarnationId: 'next' }, directory })
  const ref = kind.name(intentOf(base))
  const isThere = readdirSync(base).length + readdirSync(directory).length > 0
  expect((await kind.observe(ref, ctx)).is).toBe(isThere ? 'present' : 'absent')
  expect(await Array.fromAsync(kind.list({ installation: host.installation }))).toHaveLength(isThere ? 1 : 0)
  await kind.release(ref)
  expect((await kind.observe(ref, ctx)).is).toBe('absent')
  expect([readdirSync(base), readdirSync(directory)]).toEqual([[], []])
}
