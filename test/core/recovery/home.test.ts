import { execFile } from 'node:child_process'
import { chmodSync, chownSync, existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import { openHome } from '../../../src/config/home.ts'
import { kernelId } from '../../../src/host/ids.ts'
import { nodeProgram, root, temporaryHome } from '../../support/home.ts'
import { needs } from '../../support/real.ts'
import { openSupervisor } from '../../support/supervisor.ts'

/** The folder that holds everything: ours alone, and never somebody else's by mistake. */

const mode = (path: string): string => (statSync(path).mode & 0o777).toString(8)
const refusal = (text: string): unknown => expect.objectContaining({ code: 'home_unusable', message: expect.stringContaining(text) })

describe('a home', () => {
  it('is made where there is none, and everything in it is ours alone', async () => {
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

  it('keeps its installation, also when its database is lost', () => {
    const home = temporaryHome()
    const { installation } = openHome(home, kernelId)
    expect(installation).toMatch(/^[0-9a-f]{12}$/)
    expect(openHome(home, kernelId).installation).toBe(installation)
  })

  it('is another installation when it was copied from another machine', () => {
    const home = temporaryHome()
    const { installation } = openHome(home, kernelId)
    writeFileSync(join(home, 'installation.json'), JSON.stringify({ id: installation, machine: 'another' }))
    const { installation: fresh } = openHome(home, kernelId)
    expect(fresh).not.toBe(installation)
    expect(openHome(home, kernelId).installation).toBe(fresh)
  })

  it('is one installation for many first starts at once', async () => {
    const home = temporaryHome()
    const program = `
      const { openHome } = await import(${JSON.stringify(join(root, 'src/config/home.ts'))})
      process.stdout.write(openHome(${JSON.stringify(home)}, () => crypto.randomUUID()).installation)`
    const words = ['--disable-warning=ExperimentalWarning', '--input-type=module', '-e', program]
    const starts = await Promise.all(Array.from({ length: 6 }, () => promisify(execFile)(nodeProgram, words)))
    expect(new Set(starts.map(({ stdout }) => stdout)).size).toBe(1)
    expect(readdirSync(home).toSorted()).toEqual(['archive', 'doors', 'installation.json', 'logs', 'run'])
  })

  it('an empty folder that others may read becomes a home that they may not', () => {
    const home = temporaryHome()
    writeFileSync(join(home, 'ebb.config.json'), '{}')
    chmodSync(home, 0o755)
    openHome(home, kernelId)
    expect(mode(home)).toBe('700')
    chmodSync(home, 0o750)
    openHome(home, kernelId)
    expect(mode(home)).toBe('700')
  })
})

describe('what is no home', () => {
  it('a folder that is shared with others, such as /tmp, is not closed to them', () => {
    const shared = temporaryHome()
    writeFileSync(join(shared, 'theirs'), '')
    chmodSync(shared, 0o1777)
    expect(() => openHome(shared, kernelId)).toThrow(refusal('holds things that are not of Ebb'))
    expect([mode(shared), readdirSync(shared)]).toEqual(['777', ['theirs']])
  })

  it('a file', () => {
    const file = join(temporaryHome(), 'file')
    writeFileSync(file, 'theirs')
    expect(() => openHome(file, kernelId)).toThrow(refusal('not a directory'))
    expect(readFileSync(file, 'utf8')).toBe('theirs')
  })

  it('one in a file system that takes no folders', () => {
    expect(() => openHome('/proc/nothing/home', kernelId)).toThrow(refusal('/proc/nothing/home'))
  })

  it('one whose installation cannot be read says which file to move away', () => {
    const home = temporaryHome()
    writeFileSync(join(home, 'installation.json'), 'garbage')
    expect(() => openHome(home, kernelId)).toThrow(refusal('installation.json'))
    expect(readFileSync(join(home, 'installation.json'), 'utf8')).toBe('garbage')
    expect(readdirSync(home).filter((name) => name.startsWith('installation.json.'))).toEqual([])
  })

  describe('of somebody else', () => {
    needs('root')

    it('is refused, and nothing is made in it', () => {
      const home = temporaryHome()
      chownSync(home, 65_534, 65_534)
      expect(() => openHome(home, kernelId)).toThrow(refusal('belongs to somebody else'))
      expect(existsSync(join(home, 'logs'))).toBe(false)
    })
  })
})
