import { execFile, spawnSync } from 'node:child_process'
import { chmodSync, chownSync, existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import { openHome } from '../../../src/config/home.ts'
import { realEffects } from '../../../src/host/effects.ts'
import { kernelId } from '../../../src/host/host.ts'
import { nodeProgram, root, temporaryHome } from '../../support/home.ts'
import { needs } from '../../support/real.ts'
import { openSupervisor } from '../../support/supervisor.ts'

/** The home folder: private to its user, and never a folder of other programs by mistake. */

const mode = (path: string): string => (statSync(path).mode & 0o777).toString(8)
const refusal = (text: string): unknown => expect.objectContaining({ code: 'home_unusable', message: expect.stringContaining(text) })

describe('home', () => {
  it('is created when missing, and everything in it is private (0700, 0600)', async () => {
    const home = join(temporaryHome(), 'deep', 'home')
    const before = process.umask(0)
    try {
      await using supervisor = await openSupervisor({ home, watched: false })
      await supervisor.engine.begin()
      for (const entry of [home, ...readdirSync(home).map((name) => join(home, name))])
        expect([entry, mode(entry)]).toEqual([entry, statSync(entry).isDirectory() ? '700' : '600'])
    } finally {
      process.umask(before)
    }
  })

  it('keeps its installation id when its database is lost', () => {
    const home = temporaryHome()
    const { installation } = openHome(home, kernelId, realEffects)
    expect(installation).toMatch(/^[0-9a-f]{12}$/)
    expect(openHome(home, kernelId, realEffects).installation).toBe(installation)
  })

  it('gets a new installation id when it was copied from another machine', () => {
    const home = temporaryHome()
    const { installation } = openHome(home, kernelId, realEffects)
    writeFileSync(join(home, 'installation.json'), JSON.stringify({ id: installation, machine: 'another' }))
    const { installation: fresh } = openHome(home, kernelId, realEffects)
    expect(fresh).not.toBe(installation)
    expect(openHome(home, kernelId, realEffects).installation).toBe(fresh)
  })

  it('gets one installation id from concurrent first starts', async () => {
    const home = temporaryHome()
    const program = `
      const { openHome } = await import(${JSON.stringify(join(root, 'src/config/home.ts'))})
      const { realEffects } = await import(${JSON.stringify(join(root, 'src/host/effects.ts'))})
      process.stdout.write(openHome(${JSON.stringify(home)}, () => crypto.randomUUID(), realEffects).installation)`
    const args = ['--disable-warning=ExperimentalWarning', '--input-type=module', '-e', program]
    const starts = await Promise.all(Array.from({ length: 6 }, () => promisify(execFile)(nodeProgram, args)))
    expect(new Set(starts.map(({ stdout }) => stdout)).size).toBe(1)
    expect(readdirSync(home).toSorted()).toEqual(['archive', 'doors', 'installation.json', 'logs', 'run'])
  })

  it('removes the draft of an installation id that a killed process has left, and no draft of a living one', () => {
    const home = temporaryHome()
    const { pid: dead = 0 } = spawnSync('true')
    writeFileSync(join(home, `installation.json.${dead}`), '{')
    writeFileSync(join(home, `installation.json.${process.pid}`), 'of an earlier process with this pid')
    writeFileSync(join(home, `installation.json.${process.ppid}`), 'in use')
    const { installation } = openHome(home, kernelId, realEffects)
    expect(readdirSync(home).filter((name) => name.startsWith('installation'))).toEqual([
      'installation.json',
      `installation.json.${process.ppid}`,
    ])
    expect(JSON.parse(readFileSync(join(home, 'installation.json'), 'utf8'))).toMatchObject({ id: installation })
  })

  it('an empty folder that others can read becomes private', () => {
    const home = temporaryHome()
    writeFileSync(join(home, 'ebb.config.json'), '{}')
    chmodSync(home, 0o755)
    openHome(home, kernelId, realEffects)
    expect(mode(home)).toBe('700')
    chmodSync(home, 0o750)
    openHome(home, kernelId, realEffects)
    expect(mode(home)).toBe('700')
  })
})

describe('unusable home', () => {
  it('a folder with files of others, such as /tmp, is refused and keeps its mode', () => {
    const shared = temporaryHome()
    writeFileSync(join(shared, 'theirs'), '')
    chmodSync(shared, 0o1777)
    expect(() => openHome(shared, kernelId, realEffects)).toThrow(refusal('contains files that are not of Ebb'))
    expect([mode(shared), readdirSync(shared)]).toEqual(['777', ['theirs']])
  })

  it('a file is refused', () => {
    const file = join(temporaryHome(), 'file')
    writeFileSync(file, 'theirs')
    expect(() => openHome(file, kernelId, realEffects)).toThrow(refusal('not a directory'))
    expect(readFileSync(file, 'utf8')).toBe('theirs')
  })

  it('a path in a file system without folders is refused', () => {
    expect(() => openHome('/proc/nothing/home', kernelId, realEffects)).toThrow(refusal('/proc/nothing/home'))
  })

  it('an unreadable installation.json is refused, and the error names the file', () => {
    const home = temporaryHome()
    writeFileSync(join(home, 'installation.json'), 'garbage')
    expect(() => openHome(home, kernelId, realEffects)).toThrow(refusal('installation.json'))
    expect(readFileSync(join(home, 'installation.json'), 'utf8')).toBe('garbage')
    expect(readdirSync(home).filter((name) => name.startsWith('installation.json.'))).toEqual([])
  })

  describe('home of another user', () => {
    needs('root')

    it('is refused, and nothing is created in it', () => {
      const home = temporaryHome()
      chownSync(home, 65_534, 65_534)
      expect(() => openHome(home, kernelId, realEffects)).toThrow(refusal('belongs to another user'))
      expect(existsSync(join(home, 'logs'))).toBe(false)
    })
  })
})
