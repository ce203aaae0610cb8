import { existsSync, mkdirSync, readdirSync, renameSync, rmdirSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { Inode } from '../../../src/core/model/identity.ts'
import type { FolderSpec, folderKind } from '../../../src/core/ports/folder.ts'
import { Handles } from '../../../src/core/ports/handles.ts'
import type { CreateCtx, DetailOf, IntentOf } from '../../../src/core/ports/kind.ts'
import { realClock } from '../../../src/host/clock.ts'
import { realEffects } from '../../../src/host/effects.ts'
import { FolderKind, type FolderRef } from '../../../src/kinds/file/folder.ts'
import { Crash, Fuse, fused } from '../../support/fuse.ts'
import { temporaryHome } from '../../support/home.ts'
import { hooked } from '../../support/hooked.ts'

/** The folders of a workspace: made on need, and removed by their last user when they are empty. */

const ctx = { signal: new AbortController().signal, clock: realClock }

interface Folder {
  readonly intent: IntentOf<typeof folderKind>
  /** Returns the reference to the folder as the next supervisor derives it from the ledger. */
  ref(): FolderRef
}

const intentOf = (base: string, id: string, more: Partial<FolderSpec> = {}): IntentOf<typeof folderKind> => ({
  id,
  scopeId: id,
  incarnation: 'i1',
  kind: 'folder',
  spec: { base, shared: '.shared', own: 'own', rooms: ['logs', 'archive'], ...more },
  dependsOn: [],
  onLoss: 'end',
})

async function make(
  kind: FolderKind,
  intent: IntentOf<typeof folderKind>,
  known?: Inode,
  write = <T>(work: () => T): T => work(),
): Promise<Folder> {
  let detail: DetailOf<typeof folderKind> | undefined
  const create: CreateCtx<typeof folderKind> = {
    ...ctx,
    live: { known },
    handles: new Handles(),
    record: async (recorded) =>
      write(() => {
        detail = recorded
      }),
  }
  const folder = { intent, ref: () => kind.name({ ...intent, ...(detail && { detail }) }) }
  try {
    await kind.create(kind.name(intent), intent.spec, create)
  } catch (error) {
    if (!(error instanceof Crash)) throw error
  }
  return folder
}

const is = async (kind: FolderKind, ref: FolderRef): Promise<string> => (await kind.observe(ref, ctx)).is
const tree = (base: string): readonly string[] => (readdirSync(base, { recursive: true }) as string[]).toSorted()
const markOf = (folder: Folder): Inode | undefined => folder.ref().mark

describe('workspace folders', () => {
  it('have mode 0700, and are removed with their only user', async () => {
    const base = temporaryHome()
    const kind = new FolderKind(realEffects)
    const folder = await make(kind, intentOf(base, 'a.1'))
    expect(tree(base)).toEqual(['.shared', '.shared/own'])
    for (const path of tree(base)) expect((statSync(join(base, path)).mode & 0o777).toString(8)).toBe('700')
    mkdirSync(join(base, '.shared/own/logs'))
    expect(await is(kind, folder.ref())).toBe('present')
    await kind.release(folder.ref())
    expect(await is(kind, folder.ref())).toBe('absent')
    expect(tree(base)).toEqual([])
    await kind.release(folder.ref())
    expect(await is(kind, folder.ref())).toBe('absent')
  })

  it('stay while another user is in them, also when they are empty', async () => {
    const base = temporaryHome()
    const kind = new FolderKind(realEffects)
    const one = await make(kind, intentOf(base, 'a.1'))
    const two = await make(kind, intentOf(base, 'b.1'), markOf(one))
    await kind.release(one.ref())
    expect(await is(kind, one.ref())).toBe('absent')
    expect(tree(base)).toEqual(['.shared', '.shared/own'])
    expect(await is(kind, two.ref())).toBe('present')
    await kind.release(two.ref())
    expect(tree(base)).toEqual([])
  })

  it('stay for an agent that outlived a restart and was resumed', async () => {
    const base = temporaryHome()
    const one = await make(new FolderKind(realEffects), intentOf(base, 'a.1'))
    const kind = new FolderKind(realEffects)
    await kind.resume({ ...kind.name(one.intent), mark: markOf(one) })
    const two = await make(kind, intentOf(base, 'b.1'), markOf(one))
    await kind.release(two.ref())
    expect(tree(base)).toEqual(['.shared', '.shared/own'])
  })

  it('stay with their contents when they are not empty', async () => {
    const base = temporaryHome()
    const kind = new FolderKind(realEffects)
    const folder = await make(kind, intentOf(base, 'a.1'))
    for (const room of ['logs', 'archive', 'mine']) mkdirSync(join(base, '.shared/own', room))
    writeFileSync(join(base, '.shared/own/archive/log'), 'kept')
    await kind.release(folder.ref())
    expect(await is(kind, folder.ref())).toBe('absent')
    expect(tree(base)).toEqual(['.shared', '.shared/own', '.shared/own/archive', '.shared/own/archive/log', '.shared/own/mine'])
  })

  it('a shared folder that Ebb did not make stays, also one that replaced ours', async () => {
    const base = temporaryHome()
    mkdirSync(join(base, '.shared'))
    const kind = new FolderKind(realEffects)
    const folder = await make(kind, intentOf(base, 'a.1'))
    expect(markOf(folder)).toBeUndefined()
    await kind.release(folder.ref())
    expect(tree(base)).toEqual(['.shared'])
    rmdirSync(join(base, '.shared'))

    const own = await make(kind, intentOf(base, 'b.1'))
    renameSync(join(base, '.shared'), join(base, 'moved'))
    mkdirSync(join(base, '.shared'))
    await kind.release(own.ref())
    expect(tree(base)).toEqual(['.shared', 'moved', 'moved/own'])
  })

  it('a new workspace is refused when its folder exists', async () => {
    const base = temporaryHome()
    mkdirSync(join(base, '.shared/own'), { recursive: true })
    const kind = new FolderKind(realEffects)
    await expect(make(kind, intentOf(base, 'a.1', { isNew: true }))).rejects.toMatchObject({ code: 'path_refused' })
  })

  it.each(['.shared', '.shared/own'])('are neither made nor removed when %s is a symlink', async (link) => {
    const base = temporaryHome()
    const elsewhere = temporaryHome()
    const kind = new FolderKind(realEffects)
    const folder = await make(kind, intentOf(base, 'a.1'))
    mkdirSync(join(elsewhere, 'own/logs'), { recursive: true })
    mkdirSync(join(elsewhere, 'logs'))
    renameSync(join(base, link), join(base, 'aside'))
    symlinkSync(elsewhere, join(base, link))
    await kind.release(folder.ref())
    expect(await is(kind, folder.ref())).toBe('absent')
    expect(tree(elsewhere)).toEqual(['logs', 'own', 'own/logs'])
    await expect(make(kind, intentOf(base, 'b.1'))).rejects.toMatchObject({
      code: 'path_refused',
      message: expect.stringContaining('link'),
    })
    expect(tree(elsewhere)).toEqual(['logs', 'own', 'own/logs'])
  })

  it('are made when another ebb removes the shared folder meanwhile', async () => {
    const base = temporaryHome()
    let taken = 0
    const effects = hooked(realEffects, (method, [path]) => {
      if (method === 'makeDirectory' && String(path).endsWith('/own') && taken++ === 0) rmdirSync(join(base, '.shared'))
    })
    const kind = new FolderKind(effects)
    const folder = await make(kind, intentOf(base, 'a.1'))
    expect(tree(base)).toEqual(['.shared', '.shared/own'])
    await kind.release(folder.ref())
    expect(tree(base)).toEqual([])
  })

  it('are present while they cannot be removed', async () => {
    const base = temporaryHome()
    const effects = hooked(realEffects, (method) => {
      if (method === 'removeDirectory') throw Object.assign(new Error('EACCES: permission denied'), { code: 'EACCES' })
    })
    const kind = new FolderKind(effects)
    const folder = await make(kind, intentOf(base, 'a.1'))
    await expect(kind.release(folder.ref())).rejects.toThrow('EACCES')
    expect(await is(kind, folder.ref())).toBe('present')
  })

  it.each(['before', 'after'] as const)('are found and removed after a creation that crashed %s any of its effects', async (when) => {
    for (let point = 1, isOver = false; !isOver; point++) {
      const base = temporaryHome()
      const fuse = new Fuse(point, when)
      const folder = await make(new FolderKind(fused(fuse)), intentOf(base, 'a.1'), undefined, (work) => fuse.burn(work))
      isOver = !fuse.hasBlown
      const next = new FolderKind(realEffects)
      expect(await is(next, folder.ref()), `at ${point}`).toBe(tree(base).length > 0 ? 'present' : 'absent')
      await next.release(folder.ref())
      expect(tree(base), `at ${point}`).toEqual([])
      expect(await is(next, folder.ref())).toBe('absent')
    }
  })

  it('a missing base is refused and not made', async () => {
    const base = join(temporaryHome(), 'none')
    await expect(make(new FolderKind(realEffects), intentOf(base, 'a.1'))).rejects.toMatchObject({ code: 'path_refused' })
    expect(existsSync(base)).toBe(false)
  })
})
