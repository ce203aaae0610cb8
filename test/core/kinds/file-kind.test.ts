import {
  chownSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { Report } from '../../../src/core/model/report.ts'
import { label } from '../../../src/core/ports/handles.ts'
import { type DetailOf, type Planned, planned } from '../../../src/core/ports/kind.ts'
import { realClock } from '../../../src/host/clock.ts'
import { realEffects } from '../../../src/host/effects.ts'
import { inodeOf } from '../../../src/host/path.ts'
import { directoryKind, FileKind, fileKind, type PathRef } from '../../../src/kinds/file/kind.ts'
import { temporaryHome } from '../../support/home.ts'
import { hookOn } from '../../support/hooked.ts'
import { bindMount, tmpfs } from '../../support/mounts.ts'
import { needs } from '../../support/real.ts'
import { openSupervisor, type TestSupervisor } from '../../support/supervisor.ts'
import { intent } from '../store/records.ts'

/** Files and directories in a workspace, created and removed by a real engine. */

type Kind = 'file' | 'directory'
const kinds: readonly Kind[] = ['file', 'directory']
const nobody = 65_534

const open = (): Promise<TestSupervisor> => openSupervisor({ watched: false })
const at = (kind: Kind, workspace: string, path: string, live?: string | Uint8Array): Planned =>
  kind === 'file'
    ? planned({ label: label(path), kind: fileKind, spec: { workspace, path }, live })
    : planned({ label: label(path), kind: directoryKind, spec: { workspace, path } })
const pathRefused = (text: string): unknown => expect.objectContaining({ code: 'path_refused', message: expect.stringContaining(text) })

/** Launches one resource in a workspace. */
async function make(
  supervisor: TestSupervisor,
  kind: Kind,
  path = 'ours',
  workspace = temporaryHome(),
): Promise<{ scopeId: string; path: string; workspace: string }> {
  const { scope } = await supervisor.launch(() => [at(kind, workspace, path, 'content')])
  return { scopeId: scope.id, path: join(workspace, path), workspace }
}

/** Closes with a short deadline: a close of files never needs it, and a blocked close ends soon. */
const close = (supervisor: TestSupervisor, scopeId: string, force = false): Promise<Report> =>
  supervisor.engine.close(scopeId, { trigger: 'completed', deadlineMs: 200, ...(force && { force }) })

describe('file and directory', () => {
  it('exist while their scope is open, and are removed with it', async () => {
    await using supervisor = await open()
    const workspace = temporaryHome()
    mkdirSync(join(workspace, 'deep'))
    const plan = [at('directory', workspace, 'deep/folder'), at('file', workspace, 'prompt', Buffer.from([0, 255, 10]))]
    const { scope } = await supervisor.launch(() => plan)
    expect(readFileSync(join(workspace, 'prompt'))).toEqual(Buffer.from([0, 255, 10]))
    expect((statSync(join(workspace, 'prompt')).mode & 0o777).toString(8)).toBe('600')
    expect((statSync(join(workspace, 'deep/folder')).mode & 0o777).toString(8)).toBe('700')
    expect(readdirSync(workspace, { recursive: true }).toSorted()).toEqual(['deep', 'deep/folder', 'prompt'])
    expect(await close(supervisor, scope.id)).toMatchObject({
      success: true,
      resources: [{ proof: { strength: 'kernel' } }, { proof: { strength: 'kernel' } }],
    })
    expect(readdirSync(workspace, { recursive: true })).toEqual(['deep'])
  })

  it('a directory is removed with its contents, and symlinks in it are not followed', async () => {
    await using supervisor = await open()
    const outside = temporaryHome()
    writeFileSync(join(outside, 'kept'), 'kept')
    const made = await make(supervisor, 'directory')
    mkdirSync(join(made.path, 'a/b'), { recursive: true })
    writeFileSync(join(made.path, 'a/b/c'), '')
    symlinkSync(outside, join(made.path, 'a/out'))
    expect(await close(supervisor, made.scopeId)).toMatchObject({ success: true })
    expect(existsSync(made.path)).toBe(false)
    expect(readdirSync(outside)).toEqual(['kept'])
  })

  it('a file that was removed before the close is released (G5)', async () => {
    await using supervisor = await open()
    const made = await make(supervisor, 'file')
    rmSync(made.path)
    expect(await close(supervisor, made.scopeId)).toMatchObject({
      success: true,
      resources: [{ steps: [], proof: { method: 'no such path' } }],
    })
  })
})

describe.each(kinds)('%s: the launch is refused', (kind) => {
  it('when the path leads out of the workspace or is not normalized', async () => {
    await using supervisor = await open()
    const workspace = temporaryHome()
    for (const path of ['', '/etc/ours', '..', '../ours', 'a/../../ours', './ours', 'a//ours', 'ours/', '.', 'a\0b'])
      await expect(supervisor.launch(() => [at(kind, workspace, path)])).rejects.toThrow(pathRefused('inside the workspace'))
    expect(readdirSync(workspace)).toEqual([])
  })

  it('when the workspace does not exist or is not absolute', async () => {
    await using supervisor = await open()
    await expect(supervisor.launch(() => [at(kind, '/nonexistent', 'ours')])).rejects.toThrow(pathRefused('not a directory'))
    await expect(supervisor.launch(() => [at(kind, 'relative', 'ours')])).rejects.toThrow(pathRefused('inside the workspace'))
  })

  it('when the path goes through a symlink, at any depth', async () => {
    await using supervisor = await open()
    const [workspace, outside] = [temporaryHome(), temporaryHome()]
    mkdirSync(join(outside, 'b'))
    mkdirSync(join(workspace, 'a'))
    symlinkSync(outside, join(workspace, 'link'))
    symlinkSync(outside, join(workspace, 'a/link'))
    for (const path of ['link/ours', 'a/link/ours', 'a/link/b/ours'])
      await expect(supervisor.launch(() => [at(kind, workspace, path)])).rejects.toThrow(pathRefused('is a link or a file'))
    expect(readdirSync(outside, { recursive: true })).toEqual(['b'])
  })

  it('when the parent folder does not exist', async () => {
    await using supervisor = await open()
    await expect(supervisor.launch(() => [at(kind, temporaryHome(), 'missing/ours')])).rejects.toThrow(pathRefused('does not exist'))
  })

  it.each([
    ['a file', (place: string) => writeFileSync(place, 'theirs')],
    ['an empty folder', (place: string) => mkdirSync(place)],
    ['a dangling symlink', (place: string) => symlinkSync('/nonexistent', place)],
  ])('when %s exists at the path, which is neither changed nor removed', async (_what, put) => {
    await using supervisor = await open()
    const workspace = temporaryHome()
    const place = join(workspace, 'ours')
    put(place)
    const before = JSON.stringify(statSync(workspace).mtimeMs)
    await expect(supervisor.launch(() => [at(kind, workspace, 'ours')])).rejects.toThrow(
      pathRefused('a file or folder that Ebb did not make exists there already'),
    )
    expect(readdirSync(workspace)).toEqual(['ours'])
    expect(JSON.stringify(statSync(workspace).mtimeMs)).toBe(before)
  })

  it('when something appears at the path during the write to the ledger', async () => {
    const workspace = temporaryHome()
    const place = join(workspace, 'ours')
    await using supervisor = await openSupervisor({
      watched: false,
      wrap: hookOn('ledger', (method) => {
        if (method === 'record') mkdirSync(place)
      }),
    })
    await expect(supervisor.launch(() => [at(kind, workspace, 'ours')])).rejects.toThrow(
      pathRefused('a file or folder that Ebb did not make exists there already'),
    )
    expect(readdirSync(workspace)).toEqual(['ours'])
    expect(readdirSync(place)).toEqual([])
  })

  it('when something appears at the path just before the final link or rename', async () => {
    const workspace = temporaryHome()
    const place = join(workspace, 'ours')
    await using supervisor = await openSupervisor({
      watched: false,
      wrap: hookOn('effects', (method) => {
        if (method === 'link' || method === 'rename') writeFileSync(place, 'theirs')
      }),
    })
    await expect(supervisor.launch(() => [at(kind, workspace, 'ours')])).rejects.toThrow()
    expect(readFileSync(place, 'utf8')).toBe('theirs')
    expect(readdirSync(workspace)).toEqual(['ours'])
  })

  it('when a symlink exists at the staging path, which is not followed', async () => {
    await using supervisor = await open()
    const [workspace, outside] = [temporaryHome(), temporaryHome()]
    writeFileSync(join(outside, 'theirs'), 'theirs')
    const plan = (scopeId: string): readonly Planned[] => {
      symlinkSync(join(outside, 'theirs'), join(workspace, `.ours.${scopeId}.1.ebb`))
      return [at(kind, workspace, 'ours', 'content')]
    }
    await expect(supervisor.launch(plan)).rejects.toThrow(/EEXIST|ELOOP/)
    expect(readFileSync(join(outside, 'theirs'), 'utf8')).toBe('theirs')
    expect(readdirSync(workspace)).toEqual([])
  })
})

describe.each(kinds)('%s: a replaced path is left alone (G10)', (kind) => {
  it.each([
    ['a file', (place: string) => writeFileSync(place, 'theirs')],
    ['a folder', (place: string) => mkdirSync(place)],
    ['a symlink', (place: string) => symlinkSync('/etc', place)],
  ])('when it was replaced by %s', async (_what, put) => {
    await using supervisor = await open()
    const made = await make(supervisor, kind)
    renameSync(made.path, `${made.path}.old`)
    put(made.path)
    expect(await close(supervisor, made.scopeId)).toMatchObject({
      success: true,
      resources: [{ proof: { method: 'another file is at its place' } }],
    })
    expect(readdirSync(made.workspace).toSorted()).toEqual(['ours', 'ours.old'])
  })

  it('when its parent folder was replaced by a symlink', async () => {
    await using supervisor = await open()
    const [workspace, outside] = [temporaryHome(), temporaryHome()]
    mkdirSync(join(workspace, 'a'))
    const made = await make(supervisor, kind, 'a/ours', workspace)
    renameSync(join(workspace, 'a'), join(workspace, 'moved'))
    symlinkSync(outside, join(workspace, 'a'))
    writeFileSync(join(outside, 'ours'), 'theirs')
    await close(supervisor, made.scopeId)
    expect(readFileSync(join(outside, 'ours'), 'utf8')).toBe('theirs')
  })
})

describe('file identity', () => {
  it('a file that is reached through a symlink now is stuck and not removed', async () => {
    await using supervisor = await open()
    const [workspace, outside] = [temporaryHome(), temporaryHome()]
    mkdirSync(join(workspace, 'a'))
    const made = await make(supervisor, 'file', 'a/ours', workspace)
    // The file outside is the same inode, so only the symlink on the path shows that the file must not be removed.
    linkSync(made.path, join(outside, 'ours'))
    renameSync(join(workspace, 'a'), join(workspace, 'moved'))
    symlinkSync(outside, join(workspace, 'a'))
    const report = await close(supervisor, made.scopeId, true)
    expect(report).toMatchObject({ success: false, resources: [{ outcome: 'stuck', error: expect.stringContaining('is a link') }] })
    expect(existsSync(join(outside, 'ours'))).toBe(true)
    rmSync(join(workspace, 'a'))
    renameSync(join(workspace, 'moved'), join(workspace, 'a'))
    expect(await close(supervisor, made.scopeId)).toMatchObject({ success: true })
    expect(existsSync(made.path)).toBe(false)
  })

  it.each([
    ['birth', { bornNs: '1' }],
    ['device', { device: '1' }],
    ['number', { inode: '1' }],
  ])('a file whose inode differs only in its %s is another file', async (_part, other) => {
    const workspace = temporaryHome()
    const path = join(workspace, 'ours')
    writeFileSync(path, 'theirs')
    const inode = inodeOf(lstatSync(path, { bigint: true }))
    const kind = new FileKind(realEffects)
    const ctx = { signal: new AbortController().signal, clock: realClock }
    const refOf = (detail: DetailOf<typeof fileKind>): PathRef =>
      kind.name({ ...intent('agent', 1), spec: { workspace, path: 'ours' }, detail })
    const stranger = refOf({ ...inode, ...other })
    expect(await kind.observe(stranger, ctx)).toMatchObject({ is: 'absent', proof: { method: 'another file is at its place' } })
    await kind.release(stranger)
    expect(readFileSync(path, 'utf8')).toBe('theirs')
    expect(await kind.observe(refOf(inode), ctx)).toMatchObject({ is: 'present' })
  })
})

describe('other users', () => {
  needs('root')

  it.each(kinds)('a %s is not made in a folder of another user', async (kind) => {
    await using supervisor = await open()
    const workspace = temporaryHome()
    mkdirSync(join(workspace, 'theirs/deep'), { recursive: true })
    chownSync(join(workspace, 'theirs'), nobody, nobody)
    await expect(supervisor.launch(() => [at(kind, workspace, 'theirs/deep/ours')])).rejects.toThrow(pathRefused('belongs to another user'))
    expect(readdirSync(join(workspace, 'theirs/deep'))).toEqual([])
  })

  it.each(kinds)('a %s that belongs to another user by now is stuck until it is given back (G4)', async (kind) => {
    await using supervisor = await open()
    const made = await make(supervisor, kind)
    chownSync(made.path, nobody, nobody)
    const report = await close(supervisor, made.scopeId, true)
    expect(report).toMatchObject({
      success: false,
      resources: [{ outcome: 'stuck', error: expect.stringContaining('belongs to another user') }],
    })
    expect(existsSync(made.path)).toBe(true)
    chownSync(made.path, 0, 0)
    expect(await close(supervisor, made.scopeId)).toMatchObject({ success: true })
  })
})

describe('directory with mounts', () => {
  needs('root')

  it.each(['a workspace', 'a workspace that is reached through a symlink'])(
    'a mount inside the directory, in %s: nothing is removed until it is unmounted',
    async (where) => {
      await using supervisor = await open()
      const [real, theirs] = [temporaryHome(), temporaryHome()]
      const workspace = where === 'a workspace' ? real : join(temporaryHome(), 'link')
      if (workspace !== real) symlinkSync(real, workspace)
      writeFileSync(join(theirs, 'kept'), 'kept')
      const made = await make(supervisor, 'directory', 'ours', workspace)
      mkdirSync(join(made.path, 'mounted here'))
      writeFileSync(join(made.path, 'own'), '')
      using mounted = bindMount(theirs, join(made.path, 'mounted here'))
      const report = await close(supervisor, made.scopeId, true)
      expect(report).toMatchObject({
        success: false,
        resources: [{ outcome: 'stuck', error: expect.stringContaining('unmount it first') }],
      })
      expect(readdirSync(theirs)).toEqual(['kept'])
      expect(readdirSync(made.path).toSorted()).toEqual(['mounted here', 'own'])
      mounted[Symbol.dispose]()
      expect(await close(supervisor, made.scopeId)).toMatchObject({ success: true })
      expect(readdirSync(theirs)).toEqual(['kept'])
    },
  )

  it('a mount over the directory: it is not reported as gone, and the mounted files are not changed', async () => {
    await using supervisor = await open()
    const made = await make(supervisor, 'directory')
    using mounted = tmpfs(made.path, '64k')
    writeFileSync(join(made.path, 'theirs'), '')
    const report = await close(supervisor, made.scopeId, true)
    expect(report).toMatchObject({ success: false, resources: [{ outcome: 'stuck', error: expect.stringContaining('mounted over') }] })
    expect(readdirSync(made.path)).toEqual(['theirs'])
    mounted[Symbol.dispose]()
    expect(await close(supervisor, made.scopeId)).toMatchObject({ success: true })
    expect(existsSync(made.path)).toBe(false)
  })
})
