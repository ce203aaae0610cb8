import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import {
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmdirSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { realEffects } from '../../../src/host/effects.ts'
import { nodeProgram, root, temporaryHome } from '../../support/home.ts'
import { hooked } from '../../support/hooked.ts'
import { bindMount, type Mount, tmpfs } from '../../support/mounts.ts'
import { needs } from '../../support/real.ts'
import { ctx, foreign, host, intentOf, made, makeDeep, makeMany, type Scene, sceneIn, scopeId } from '../../support/temp-folder.ts'
import { waitUntil } from '../../support/world.ts'

/** The temp folder of an agent, with any contents that the agent may leave in it. */

const nobody = 65_534
const refusal = (text: string): unknown => expect.objectContaining({ code: 'path_refused', message: expect.stringContaining(text) })

async function expectGone({ kind, ref, base, directory }: Scene): Promise<void> {
  expect(await kind.observe(ref, ctx)).toMatchObject({ is: 'absent', proof: { strength: 'kernel' } })
  expect([readdirSync(base), readdirSync(directory)]).toEqual([[], []])
}

const isUnchanged = (folder: string): boolean =>
  readFileSync(join(folder, 'file'), 'utf8') === 'theirs\n' && readFileSync(join(folder, 'inner/file'), 'utf8') === 'theirs\n'

describe('temp folder', () => {
  it('is made with mode 0700 and a name derived from the id that leaves room for a socket path', async () => {
    const { base, ref, directory, kind } = await made()
    expect(ref.path).toBe(join(base, `ebb-${Buffer.from(scopeId.replaceAll('-', ''), 'hex').toString('base64url')}`))
    // A socket path has at most 103 bytes on macOS. The path in this test is the longest temp folder that macOS gives.
    expect(
      '/var/folders/zz/zyxvpxvq6csfxvn_n0000000000000/T'.length + ref.path.length - base.length + '/cc-socks/4194304.sock'.length,
    ).toBeLessThan(104)
    expect(statSync(ref.path).mode & 0o777).toBe(0o700)
    expect(readdirSync(directory)).toEqual([`${host.incarnationId}~${scopeId}.1.temp`])
    expect(readlinkSync(ref.symlink)).toBe(ref.path)
    expect(await kind.observe(ref, ctx)).toEqual({ is: 'present', detail: ref.path })
  })

  it('is removed and observed as absent, and a second release changes nothing (G5)', async () => {
    const scene = await made()
    for (const _ of [1, 2]) {
      await scene.kind.release(scene.ref)
      await expectGone(scene)
    }
    expect(await scene.kind.gone(scene.ref, ctx)).toMatchObject({ method: 'no such folder', strength: 'kernel' })
  })

  it('reports what to do when it cannot be made', async () => {
    const { kind, ref } = sceneIn('/proc/self')
    await expect(kind.create(ref, intentOf('/proc/self').spec, ctx)).rejects.toThrow('set TMPDIR to a folder that can be written')
  })
})

describe('temp folder: release (G2, G10)', () => {
  it('removes symlinks to folders and files without following them', async () => {
    const theirs = foreign()
    const scene = await made()
    mkdirSync(join(scene.ref.path, 'deep/deeper'), { recursive: true })
    for (const at of ['link', 'deep/link', 'deep/deeper/link']) symlinkSync(theirs, join(scene.ref.path, at))
    symlinkSync('/', join(scene.ref.path, 'root'))
    symlinkSync(join(theirs, 'file'), join(scene.ref.path, 'deep/file'))
    execFileSync('mkfifo', [join(scene.ref.path, 'deep/pipe')])
    await scene.kind.release(scene.ref)
    await expectGone(scene)
    expect(isUnchanged(theirs)).toBe(true)
  })

  it('removes ten thousand files without blocking the event loop', async () => {
    const scene = await made()
    makeMany(join(scene.ref.path, 'many'), 10_000)
    let turns = 0
    const turn = setInterval(() => turns++, 1)
    await scene.kind.release(scene.ref)
    clearInterval(turn)
    await expectGone(scene)
    expect(turns).toBeGreaterThan(10)
  })

  it('removes nested folders that are deeper than the longest path', async () => {
    const scene = await made()
    makeDeep(scene.ref.path, 3_000)
    // `.ebb-1` and `.ebb-2` are names that the removal itself uses.
    mkdirSync(join(scene.ref.path, '.ebb-1/full'), { recursive: true })
    writeFileSync(join(scene.ref.path, '.ebb-2'), '')
    await scene.kind.release(scene.ref)
    await expectGone(scene)
  })

  it('removes files and folders with unusual names', async () => {
    const scene = await made()
    for (const name of ['new\nline', '-rf', ' ', '…', 'x'.repeat(255)]) {
      mkdirSync(join(scene.ref.path, name))
      writeFileSync(join(scene.ref.path, name, name), '')
    }
    await scene.kind.release(scene.ref)
    await expectGone(scene)
  })

  it('removes files, folders and symlinks whose names are not UTF-8, at any depth', async () => {
    const theirs = foreign()
    const scene = await made()
    const within = (folder: Buffer, name: readonly number[]): Buffer => Buffer.concat([folder, Buffer.from('/'), Buffer.from(name)])
    let folder: Buffer = Buffer.from(scene.ref.path)
    for (let level = 0; level < 5; level++) {
      writeFileSync(within(folder, [0x6e, 0x61, 0xef, 0x76, 0x65]), '')
      symlinkSync(theirs, within(folder, [0xc0]))
      // Decoded as UTF-8 text, the names 0xfe and 0xff would be the same character.
      for (const name of [0xfe, 0xff]) mkdirSync(within(folder, [name]))
      folder = within(folder, [0xff])
    }
    await scene.kind.release(scene.ref)
    await expectGone(scene)
    expect(isUnchanged(theirs)).toBe(true)
  })

  it('removes folders without permissions, as a user other than root', () => {
    const base = temporaryHome()
    chownSync(base, nobody, nobody)
    const script = `
      import { execFileSync } from 'node:child_process'
      import { existsSync } from 'node:fs'
      import { realEffects } from '${join(root, 'src/host/effects.ts')}'
      const path = '${join(base, 'folder')}'
      execFileSync('sh', ['-c', 'mkdir -p $0/a/b/c && touch $0/a/b/c/file $0/a/file && chmod 000 $0/a/b/c $0/a/b $0/a && chmod 500 $0', path])
      await realEffects.removeFolder(path)
      console.log(existsSync(path))`
    const ended = spawnSync(nodeProgram, ['--input-type=module', '-e', script], { uid: nobody, gid: nobody, encoding: 'utf8', cwd: '/' })
    expect(ended).toMatchObject({ stdout: 'false\n', stderr: '', status: 0 })
  })

  describe('as root', () => {
    needs('root')

    const mounts: readonly (readonly [string, (point: string) => Mount])[] = [
      ['a file system', (point) => tmpfs(point, '1m')],
      // A bind mount has the same device number as the folder.
      ['a foreign folder', (point) => bindMount(foreign(), point)],
    ]
    it.each(mounts)('is refused while %s is mounted in it', async (_what, mountAt) => {
      const scene = await made()
      const point = join(scene.ref.path, 'deep/mounted')
      mkdirSync(point, { recursive: true })
      using mount = mountAt(point)
      writeFileSync(join(point, 'theirs'), 'theirs')
      await expect(scene.kind.release(scene.ref)).rejects.toEqual(refusal('unmount it first'))
      expect(readFileSync(join(point, 'theirs'), 'utf8')).toBe('theirs')
      expect((await scene.kind.observe(scene.ref, ctx)).is).toBe('present')
      expect(existsSync(scene.ref.symlink)).toBe(true)
      mount[Symbol.dispose]()
      await scene.kind.release(scene.ref)
      await expectGone(scene)
    })

    it('removes all other files and names the one that cannot be removed', async () => {
      const scene = await made()
      mkdirSync(join(scene.ref.path, 'deep'))
      const file = join(scene.ref.path, 'deep', 'immutable')
      writeFileSync(file, '')
      writeFileSync(join(scene.ref.path, 'deep', 'other'), '')
      execFileSync('chattr', ['+i', file])
      try {
        await expect(scene.kind.release(scene.ref)).rejects.toEqual(
          refusal('deep/immutable cannot be removed (EPERM); take its flags away'),
        )
        expect(readdirSync(join(scene.ref.path, 'deep'))).toEqual(['immutable'])
      } finally {
        execFileSync('chattr', ['-i', file])
      }
      await scene.kind.release(scene.ref)
      await expectGone(scene)
    })
  })

  it('fails after some passes while a foreign program writes into it', async () => {
    const scene = await made()
    const writer = spawn('sh', ['-c', 'n=0; while n=$((n+1)); do echo >"$0/$n"; done', scene.ref.path], { stdio: 'ignore' })
    const over = once(writer, 'exit')
    await waitUntil(() => existsSync(join(scene.ref.path, '1')), 20_000, 'the program writes')
    const ended = await scene.kind.release(scene.ref).then(
      () => undefined,
      (error: Error) => error.message,
    )
    writer.kill('SIGKILL')
    await over
    // The program may create files faster than the removal deletes them, or slower. The removal ends in both cases.
    if (ended !== undefined) expect(ended).toMatch(/a program still writes into it|cannot be removed/)
    await scene.kind.release(scene.ref)
    await expectGone(scene)
  })

  it('concurrent releases join one removal', async () => {
    let removals = 0
    const scene = await made(hooked(realEffects, (method) => void (method === 'removeFolder' && removals++)))
    makeMany(join(scene.ref.path, 'many'), 1_000)
    await Promise.all([1, 2, 3].map(() => scene.kind.release(scene.ref)))
    await expectGone(scene)
    expect(removals).toBe(1)
  })
})

describe('temp folder: foreign files at its path are never changed (G10)', () => {
  it.each([
    ['a folder', (path: string) => renameSync(foreign(), path)],
    ['a symlink', (path: string) => symlinkSync(foreign(), path)],
    ['a file', (path: string) => writeFileSync(path, 'theirs')],
  ])('the launch is refused when %s exists there', async (_what, put) => {
    const { base, kind, ref, directory } = sceneIn()
    put(ref.path)
    const before = lstatSync(ref.path)
    await expect(kind.create(ref, intentOf(base).spec, ctx)).rejects.toEqual(
      refusal('a file or folder that Ebb did not make exists there already'),
    )
    expect(await kind.observe(ref, ctx)).toEqual({ is: 'present', detail: ref.symlink })
    await kind.release(ref)
    expect(await kind.observe(ref, ctx)).toMatchObject({ is: 'absent', proof: { method: 'never made, because its place was taken' } })
    expect(lstatSync(ref.path)).toMatchObject({ ino: before.ino, ctimeMs: before.ctimeMs })
    expect(readdirSync(directory)).toEqual([])
    if (before.isDirectory()) execFileSync('rm', ['-r', ref.path])
  })

  it('a symlink is left alone when no folder was ever made', async () => {
    const { base, kind, ref } = sceneIn()
    symlinkSync(foreign(), ref.path)
    await kind.release(ref)
    expect(await kind.observe(ref, ctx)).toMatchObject({
      is: 'absent',
      proof: { method: 'a file or folder of another user is at its path' },
    })
    expect(readdirSync(base)).toHaveLength(1)
  })

  it('a symlink that the agent put in place of its folder is removed, and its target is not', async () => {
    const theirs = foreign()
    const scene = await made()
    rmdirSync(scene.ref.path)
    symlinkSync(theirs, scene.ref.path)
    expect((await scene.kind.observe(scene.ref, ctx)).is).toBe('present')
    await scene.kind.release(scene.ref)
    await expectGone(scene)
    expect(isUnchanged(theirs)).toBe(true)
  })

  describe('temp folder of another user', () => {
    needs('root')

    it('a folder of another user at the path is left alone, and ours is absent', async () => {
      const { kind, ref } = await made()
      rmdirSync(ref.path)
      mkdirSync(join(ref.path, '..', 'other'))
      mkdirSync(ref.path)
      chownSync(ref.path, nobody, nobody)
      await kind.release(ref)
      expect(await kind.observe(ref, ctx)).toMatchObject({
        is: 'absent',
        proof: { method: 'a file or folder of another user is at its path' },
      })
      expect(existsSync(ref.path)).toBe(true)
    })

    it('our folder is unknown when it was given to another user (G4)', async () => {
      const { kind, ref } = await made()
      chownSync(ref.path, nobody, nobody)
      expect(await kind.observe(ref, ctx)).toMatchObject({ is: 'unknown', reason: expect.stringContaining('give it back with chown') })
    })
  })
})

describe('temp folder: list, as after a lost database', () => {
  const listed = async ({ kind }: Scene, owner: Parameters<Scene['kind']['list']>[0]): Promise<readonly unknown[]> =>
    await Array.fromAsync(kind.list(owner))

  it('finds it by its symlink in the home, for its own owner only', async () => {
    const scene = await made()
    const { installation, incarnationId: incarnation } = host
    const found = { resourceId: `${scopeId}.1`, incarnation, name: scene.ref.path, spec: { installation, base: scene.base } }
    expect(await listed(scene, { installation })).toEqual([found])
    expect(await listed(scene, { installation, incarnation, scopeIds: new Set([scopeId]) })).toEqual([found])
    expect(await listed(scene, { installation, incarnation: 'another' })).toEqual([])
    expect(await listed(scene, { installation, scopeIds: new Set(['another']) })).toEqual([])
    expect(await listed(scene, { installation: 'another' })).toEqual([])
    const adopted = scene.kind.name(intentOf(found.spec.base))
    await scene.kind.release(adopted)
    await expectGone(scene)
  })

  it('ignores a symlink whose target does not have the name of its id', async () => {
    const scene = sceneIn()
    const theirs = foreign()
    symlinkSync(theirs, scene.ref.symlink)
    writeFileSync(join(scene.directory, `i~${scopeId}.2.temp`), theirs)
    expect(await listed(scene, { installation: host.installation })).toEqual([])
  })

  it('reads no folder for its own incarnation when that has made none', async () => {
    const scene = sceneIn()
    symlinkSync(scene.ref.path, scene.ref.symlink)
    const { installation, incarnationId: incarnation } = host
    expect(await listed(scene, { installation, incarnation })).toEqual([])
    expect(await listed(scene, { installation })).toHaveLength(1)
  })
})
