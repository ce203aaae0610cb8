import { existsSync, linkSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { policyFor } from '../../../src/core/model/close-request.ts'
import type { LogRef } from '../../../src/kinds/log/kind.ts'
import type { Hook } from '../../support/hooked.ts'
import { inLogScene, type LogScene } from '../../support/log-scene.ts'
import { bindMount } from '../../support/mounts.ts'
import { needs } from '../../support/real.ts'

/** Foreign files at the path of an archive, or at the path of a log while it is archived, are neither overwritten nor removed. */

const text = (path: string): string => readFileSync(path, 'utf8')
const kept = policyFor({ trigger: 'terminated' })

async function archive({ kind, ctx }: LogScene, ref: LogRef): Promise<void> {
  for (const obligation of kind.obligations(ref, kept)) await kind.meet(obligation, ref, ctx)
}

async function written(scene: LogScene): Promise<LogRef> {
  const ref = scene.inside('a', { writer: 'supervisor' })
  ;(await scene.make(ref)).append?.('one')
  return ref
}

const failing = (code: string): Error => Object.assign(new Error(code), { code })

/**
 * A log that a process holds open is copied into the archive; another log is moved by link(2). Where link(2) fails, as on a file system
 * without hard links, rename(2) is used instead.
 */
const variants = [
  ['moved', [], undefined],
  ['copied', [{ pid: 1, program: 'editor' }], undefined],
  ['moved without links', [], 'EPERM'],
  ['copied without links', [{ pid: 1, program: 'editor' }], 'EOPNOTSUPP'],
] as const

describe.each(variants)('a log that is %s', (_, found, code) => {
  const holders = { find: async () => found }
  const effects = (hook: Hook = () => {}): { readonly before: Hook } => ({
    before: (method, args) => {
      if (method === 'link' && code) throw failing(code)
      hook(method, args)
    },
  })

  it('is archived, and leaves no other file', async () => {
    await inLogScene(
      async (scene) => {
        const ref = await written(scene)
        await archive(scene, ref)
        expect([text(ref.archive), readdirSync(dirname(ref.archive)), readdirSync(dirname(ref.path))]).toEqual(['one\n', ['a.jsonl'], []])
        expect(await scene.kind.observe(ref, scene.ctx)).toMatchObject({ is: 'absent' })
        expect(scene.counted).toEqual(['archived 4'])
      },
      { holders, ...effects() },
    )
  })

  it('is held back while a foreign file is at the path of its archive', async () => {
    await inLogScene(
      async (scene) => {
        const ref = await written(scene)
        mkdirSync(dirname(ref.archive), { mode: 0o700 })
        writeFileSync(ref.archive, 'precious')
        for (const _ of ['once', 'again']) {
          await expect(archive(scene, ref)).rejects.toMatchObject({ code: 'path_refused', message: expect.stringContaining(ref.archive) })
          expect([text(ref.archive), text(ref.path)]).toEqual(['precious', 'one\n'])
        }
        expect(scene.kind.obligations(ref, kept)).toEqual(['archive'])
        rmSync(ref.archive)
        await archive(scene, ref)
        expect([text(ref.archive), readdirSync(dirname(ref.archive))]).toEqual(['one\n', ['a.jsonl']])
      },
      { holders, ...effects() },
    )
  })

  it('does not remove a file that appeared at its path meanwhile, and owes an archive of it', async () => {
    let path = ''
    const putNewFile: Hook = (method, [folder]) => {
      if (method !== 'flush' || basename(String(folder)) !== 'archive') return
      rmSync(path, { force: true })
      writeFileSync(path, 'new')
    }
    await inLogScene(
      async (scene) => {
        const ref = await written(scene)
        path = ref.path
        await expect(archive(scene, ref)).rejects.toMatchObject({
          code: 'path_refused',
          message: expect.stringContaining('another file appeared there'),
        })
        expect([text(ref.archive), text(ref.path)]).toEqual(['one\n', 'new'])
        expect(scene.kind.obligations(ref, kept)).toEqual(['archive'])
      },
      { holders, ...effects(putNewFile) },
    )
  })
})

describe('after a crash between linking the archive and removing the log', () => {
  it('moved log: the next supervisor removes the old name', async () => {
    await inLogScene(async (scene) => {
      const ref = await written(scene)
      mkdirSync(dirname(ref.archive), { mode: 0o700 })
      linkSync(ref.path, ref.archive)
      await archive(scene, ref)
      expect([text(ref.archive), existsSync(ref.path), scene.counted]).toEqual(['one\n', false, ['archived 4']])
    })
  })

  it('copied log: the copy stays the archive, and later lines in the log are dropped', async () => {
    await inLogScene(async (scene) => {
      const ref = await written(scene)
      mkdirSync(dirname(ref.archive), { mode: 0o700 })
      writeFileSync(ref.staging, 'one\n')
      linkSync(ref.staging, ref.archive)
      writeFileSync(ref.path, 'one\nlate\n')
      await archive(scene, ref)
      expect([text(ref.archive), existsSync(ref.path), readdirSync(dirname(ref.archive))]).toEqual(['one\n', false, ['a.jsonl']])
    })
  })

  it('copied log that is gone: the release removes the staging file', async () => {
    await inLogScene(async (scene) => {
      const ref = await written(scene)
      mkdirSync(dirname(ref.archive), { mode: 0o700 })
      writeFileSync(ref.staging, 'one\n')
      linkSync(ref.staging, ref.archive)
      rmSync(ref.path)
      expect([scene.kind.obligations(ref, kept), await scene.kind.observe(ref, scene.ctx)]).toEqual([
        [],
        { is: 'present', detail: ref.staging },
      ])
      await scene.kind.release(ref, 'kill', scene.ctx)
      expect(readdirSync(dirname(ref.archive))).toEqual(['a.jsonl'])
    })
  })
})

describe('a log hidden by a mount', () => {
  needs('root')

  it.each([
    ['moved', []],
    ['copied', [{ pid: 1, program: 'editor' }]],
  ] as const)('is held back, and the mounted file is not %s', async (...[, found]) => {
    await inLogScene(
      async (scene) => {
        const ref = await written(scene)
        const other = join(scene.home, 'other')
        writeFileSync(other, 'other')
        {
          using _ = bindMount(other, ref.path)
          await expect(archive(scene, ref)).rejects.toMatchObject({
            code: 'path_refused',
            message: expect.stringContaining('is mounted there'),
          })
        }
        expect([existsSync(ref.archive), text(ref.path)]).toEqual([false, 'one\n'])
        await archive(scene, ref)
        expect(text(ref.archive)).toBe('one\n')
      },
      { holders: { find: async () => found } },
    )
  })
})
