import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { LogSpec } from '../../../src/core/ports/agent-log.ts'
import type { Effects } from '../../../src/core/ports/effects.ts'
import { realClock } from '../../../src/host/clock.ts'
import { realEffects } from '../../../src/host/effects.ts'
import { LedgerArchives } from '../../../src/kinds/log/archives.ts'
import { temporaryHome } from '../../support/home.ts'
import { inLogScene } from '../../support/log-scene.ts'
import { tmpfs } from '../../support/mounts.ts'
import { needs } from '../../support/real.ts'

/** Archive paths in the ledger are used only when they are inside of the home or the workspace. */

interface Scene {
  readonly archives: LedgerArchives
  readonly home: string
  readonly workspace: string
  readonly log: string
  readonly specs: LogSpec[]
}

function open(wrap: (effects: Effects, archives: () => LedgerArchives) => Effects = (effects) => effects): Scene {
  const home = temporaryHome()
  const [directory, workspace] = [join(home, 'archive'), join(home, 'workspace')]
  for (const folder of [directory, workspace, join(workspace, 'archive')]) mkdirSync(folder)
  const inside = { workspace, path: 'logs/a', archive: 'archive/a.jsonl' }
  const specs: LogSpec[] = [{ installation: 'i', directory: '', archive: '', stream: 'stdout', inside }]
  const archives: LedgerArchives = new LedgerArchives({
    effects: wrap(realEffects, () => archives),
    clock: realClock,
    directory,
    resources: async () => specs.map((spec, index) => ({ id: `agent.${index + 1}`, kind: 'log', spec })),
  })
  return { archives, home, workspace, log: join(workspace, 'archive', 'a.jsonl'), specs }
}

const large = 'a line of some length\n'.repeat(1_000)

describe('LedgerArchives', () => {
  it.each(['..', '../precious', 'x/../../precious'])('an archive path outside of the home is refused: %s', async (path) => {
    const { archives, home, specs } = open()
    writeFileSync(join(home, 'precious'), 'precious')
    specs.push({ installation: 'i', directory: '', archive: `${join(home, 'archive')}/${path}` })
    await expect(archives.remove('agent')).rejects.toMatchObject({ code: 'path_refused' })
    expect((await archives.files('agent')).map((file) => file.stream)).toEqual([])
    expect(readFileSync(join(home, 'precious'), 'utf8')).toBe('precious')
  })

  it('an archive path that leads out of its workspace is refused', async () => {
    const { archives, workspace, specs } = open()
    specs[0] = { installation: 'i', directory: '', archive: '', inside: { workspace, path: 'a', archive: '../precious' } }
    await expect(archives.remove('agent')).rejects.toMatchObject({ code: 'path_refused' })
  })

  it('compress: refuses an archive that is a symlink, or is in a folder that is a symlink', async () => {
    const { archives, home, workspace, log } = open()
    writeFileSync(join(home, 'a.jsonl'), large)
    const file = { stream: 'stdout', path: log, bytes: large.length, isCompressed: false }
    symlinkSync(join(home, 'a.jsonl'), log)
    await expect(archives.compress('agent', file)).rejects.toThrow('ELOOP')
    expect(readdirSync(join(workspace, 'archive'))).toEqual(['a.jsonl'])
    rmSync(join(workspace, 'archive'), { recursive: true })
    symlinkSync(home, join(workspace, 'archive'))
    await expect(archives.compress('agent', file)).rejects.toMatchObject({ code: 'path_refused' })
    expect(readFileSync(join(home, 'a.jsonl'), 'utf8')).toBe(large)
  })

  it('compress: an archive that is removed meanwhile is not restored', async () => {
    const wrap = (effects: Effects, archives: () => LedgerArchives): Effects => ({
      ...effects,
      compress: async (from, to) => {
        await effects.compress(from, to)
        await archives().remove('agent')
      },
    })
    const { archives, workspace, log } = open(wrap)
    writeFileSync(log, large)
    const [file] = await archives.files('agent')
    await expect(archives.compress('agent', file ?? expect.unreachable())).rejects.toThrow('ENOENT')
    expect(existsSync(join(workspace, 'archive'))).toBe(false)
  })

  it('compress: an archive that is removed just before is not restored', async () => {
    const wrap = (effects: Effects, archives: () => LedgerArchives): Effects => ({
      ...effects,
      compress: async (from, to) => {
        await archives().remove('agent')
        mkdirSync(join(from, '..'), { recursive: true })
        await effects.compress(from, to)
      },
    })
    const { archives, workspace, log } = open(wrap)
    writeFileSync(log, large)
    const [file] = await archives.files('agent')
    await expect(archives.compress('agent', file ?? expect.unreachable())).rejects.toThrow('ENOENT')
    expect(readdirSync(join(workspace, 'archive'))).toEqual([])
  })

  it.each(['copy', 'compress'] as const)('effects: %s creates the new file before it opens the old one', async (effect) => {
    const to = join(temporaryHome(), 'new')
    await expect(realEffects[effect]('/nonexistent', to)).rejects.toThrow('ENOENT')
    expect(readFileSync(to, 'utf8')).toBe('')
  })

  it('an archive that a crash has left in several forms is listed once, and removed completely', async () => {
    const { archives, workspace, log } = open()
    for (const ending of ['', '.zst', '.gz']) writeFileSync(`${log}${ending}`, large)
    expect(await archives.files('agent')).toMatchObject([{ path: log, isCompressed: false }])
    await archives.remove('agent')
    expect(existsSync(join(workspace, 'archive'))).toBe(false)
  })
})

describe('log: a line that the supervisor writes', () => {
  needs('root')

  it('is omitted completely on a full disk, and the next line is complete', async () => {
    await inLogScene(async (scene) => {
      const folder = join(scene.workspace, 'logs')
      mkdirSync(folder, { mode: 0o700 })
      using _ = tmpfs(folder, '16k')
      const ref = scene.inside('a', { writer: 'supervisor' })
      const { append } = await scene.make(ref)
      append?.('first')
      expect(() => append?.('x'.repeat(100_000))).toThrow('ENOSPC')
      append?.('second')
      expect(readFileSync(ref.path, 'utf8')).toBe('first\nsecond\n')
    })
  })
})
