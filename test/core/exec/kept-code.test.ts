import {
  chmodSync,
  cpSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { basename, join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { type Ended, ebb, root, temporaryHome } from '../../support/home.ts'

/** `ebb exec` runs with the code that an earlier run has compiled (bin/start.cjs). Each test has an installation of its own. */

let bundle: string

beforeAll(() => {
  bundle = readFileSync(join(root, 'dist', 'main.cjs'), 'latin1')
})

class Installation {
  readonly folder = temporaryHome()
  readonly home = temporaryHome()
  readonly main = join(this.folder, 'dist', 'main.cjs')
  readonly cache = join(this.folder, 'node_modules', '.cache', 'ebb')

  constructor() {
    cpSync(join(root, 'bin'), join(this.folder, 'bin'), { recursive: true })
    cpSync(join(root, 'dist'), join(this.folder, 'dist'), { recursive: true, filter: (path) => !path.endsWith('web') })
    cpSync(join(root, 'package.json'), join(this.folder, 'package.json'))
    mkdirSync(join(this.folder, 'node_modules'))
    symlinkSync(join(root, 'node_modules', 'node'), join(this.folder, 'node_modules', 'node'))
  }

  exec(...words: readonly string[]): Promise<Ended> {
    return ebb(['exec', ...words], { home: this.home, program: join(this.folder, 'bin', 'ebb') })
  }

  get codeFile(): string {
    return join(this.cache, readdirSync(this.cache).find((name) => name.startsWith('exec-')) ?? 'none')
  }
}

describe('the kept code of "ebb exec"', () => {
  it('is written by the first run and used by the next one', async () => {
    const installation = new Installation()
    expect(await installation.exec('--', 'true')).toMatchObject({ code: 0, stderr: '' })
    const written = statSync(installation.codeFile)
    expect(written.mode & 0o777).toBe(0o600)
    expect(await installation.exec('--', 'true')).toMatchObject({ code: 0, stderr: '' })
    expect(statSync(installation.codeFile).ino).toBe(written.ino)
  })

  it('is not written by a run that started no command, because it would lack most functions', async () => {
    const installation = new Installation()
    expect(await installation.exec()).toMatchObject({ code: 2 })
    expect(readdirSync(installation.cache).filter((name) => name.startsWith('exec-'))).toEqual([])
  })

  it('is not used for another bundle of the same length', async () => {
    const installation = new Installation()
    await installation.exec('--', 'true')
    await installation.exec('--', 'true')
    const changed = bundle.replaceAll('not everything could be released', 'NOT everything could be released')
    expect(changed).not.toBe(bundle)
    writeFileSync(installation.main, changed, 'latin1')
    const code = statSync(installation.codeFile).ino
    expect(await installation.exec('--', 'true')).toMatchObject({ code: 0, stderr: '' })
    expect(statSync(installation.codeFile).ino).not.toBe(code)
  })

  it.each([
    ['is empty', () => Buffer.alloc(0)],
    ['has other bytes in place of the code', (kept: Buffer) => kept.fill(7, 0, kept.length - bundle.length)],
    ['is cut off', (kept: Buffer) => kept.subarray(0, kept.length / 2)],
  ])('is replaced when its file %s', async (_damage, damaged) => {
    const installation = new Installation()
    await installation.exec('--', 'true')
    const kept = readFileSync(installation.codeFile)
    writeFileSync(installation.codeFile, damaged(Buffer.from(kept)))
    expect(await installation.exec('--', 'true')).toMatchObject({ code: 0, stderr: '' })
    expect(statSync(installation.codeFile).size).toBeGreaterThan(bundle.length)
    expect(readFileSync(installation.codeFile).subarray(-bundle.length).toString('latin1')).toBe(bundle)
  })

  it('is not used, and replaced, when other users may have written it', async () => {
    const installation = new Installation()
    await installation.exec('--', 'true')
    const written = statSync(installation.codeFile).ino
    chmodSync(installation.codeFile, 0o620)
    expect(await installation.exec('--', 'true')).toMatchObject({ code: 0, stderr: '' })
    const { ino, mode } = statSync(installation.codeFile)
    expect([ino === written, mode & 0o777]).toEqual([false, 0o600])
  })

  it('is not read through a symlink', async () => {
    const installation = new Installation()
    await installation.exec('--', 'true')
    const { codeFile } = installation
    const elsewhere = join(installation.folder, 'code')
    renameSync(codeFile, elsewhere)
    symlinkSync(elsewhere, codeFile)
    expect(await installation.exec('--', 'true')).toMatchObject({ code: 0, stderr: '' })
    expect(lstatSync(codeFile).isSymbolicLink()).toBe(false)
  })

  it('removes the draft of a process that was killed while it wrote, once it is a minute old', async () => {
    const installation = new Installation()
    await installation.exec('--', 'true')
    const { codeFile } = installation
    rmSync(codeFile)
    const [old, young] = [`${codeFile}.1-2`, `${codeFile}.3-4`]
    for (const draft of [old, young]) writeFileSync(draft, 'half')
    utimesSync(old, new Date(0), new Date(0))
    expect(await installation.exec('--', 'true')).toMatchObject({ code: 0, stderr: '' })
    expect(
      readdirSync(installation.cache)
        .filter((name) => name.startsWith('exec-'))
        .toSorted(),
    ).toEqual([codeFile, young].map((file) => basename(file)).toSorted())
  })

  it('is not needed: a folder in place of its file changes nothing', async () => {
    const installation = new Installation()
    await installation.exec('--', 'true')
    const { codeFile } = installation
    rmSync(codeFile)
    mkdirSync(codeFile)
    for (let run = 0; run < 2; run++) expect(await installation.exec('--', 'true')).toMatchObject({ code: 0, stderr: '' })
    // The draft that could not get the name of the file is removed.
    expect(readdirSync(installation.cache).filter((name) => name.startsWith('exec-'))).toEqual([basename(codeFile)])
  })

  it('is not needed: without a folder to write to, every run compiles its code', async () => {
    const installation = new Installation()
    writeFileSync(join(installation.folder, 'node_modules', '.cache'), '')
    for (let run = 0; run < 2; run++) expect(await installation.exec('--', 'true')).toMatchObject({ code: 0, stderr: '' })
  })

  it('serves the other files of the bundle, which require this one', async () => {
    const installation = new Installation()
    const codex = join(installation.home, 'codex')
    writeFileSync(codex, '#!/bin/sh\necho "$TMPDIR"\n')
    chmodSync(codex, 0o700)
    for (let run = 0; run < 2; run++) {
      const { code, stdout, stderr } = await installation.exec('--', codex)
      expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
      // The temp folder shows that the files with the providers were loaded: only an agent's program gets a temp folder of its own.
      expect(stdout.toString()).toMatch(/\/ebb-[\w-]{22}\n$/)
    }
  })
})
