import { existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { realEffects } from '../../../src/host/effects.ts'
import { firstOutput, readVersion } from '../../../src/host/probe.ts'
import { LentFolders } from '../../../src/kinds/temp-folder/lent-folder.ts'
import { temporaryHome } from '../../support/home.ts'
import { seen, waitUntil } from '../../support/world.ts'

/** A program is asked for its version: an answer or none, and nothing else happens to anybody. */

const env = { PATH: '/usr/bin:/bin' }
const ask = (script: string): Promise<string | undefined> => firstOutput(['/bin/sh', '-c', script], env)

afterEach(() => {
  vi.restoreAllMocks()
})

describe('a program that is asked for its version', () => {
  it('has a temp folder of its own, which goes with all that it unpacks there', async () => {
    const directory = temporaryHome()
    const lost = join(directory, 'lent-dead_1')
    mkdirSync(lost)
    const theirs = join(directory, 'lent-alive_1')
    mkdirSync(theirs)
    const host = { incarnationId: 'own', vitality: (id: string) => (id === 'dead' ? ('dead' as const) : ('alive' as const)) }
    const folders = new LentFolders({ effects: realEffects, directory, host })
    const script = 'mkdir -p "$TMPDIR/deep"; echo x >"$TMPDIR/deep/library.so"; stat -c %a "$TMPDIR"; echo "$TMPDIR"'
    const asked = [1, 2].map(() => readVersion(['/bin/sh', '-c', script], env, (use) => folders.lend(use)))
    expect((await Promise.all(asked)).toSorted()).toEqual([1, 2].map((count) => `700\n${join(directory, `lent-own_${count}`)}`))
    // What a killed supervisor had lent out is gone too; that of a living one is not ours.
    expect(readdirSync(directory)).toEqual(['lent-alive_1'])
    // Who asks beside another takes nothing away from it.
    const isThere = await folders.lend(async (path) => await folders.lend(async () => existsSync(path)))
    expect(isThere).toBe(true)
    await expect(folders.lend(async () => Promise.reject(new Error('no answer')))).rejects.toThrow('no answer')
    expect(readdirSync(directory)).toEqual(['lent-alive_1'])
  })

  it('answers with what it prints, or not at all', async () => {
    expect(await ask('echo 1.2.3')).toBe('1.2.3')
    expect(await ask('echo 1.2.3; exit 1')).toBeUndefined()
    expect(await firstOutput(['/nonexistent/program'], env)).toBeUndefined()
  })

  it.each([
    ['holds its output open', 'sleep 1000'],
    ['does not', 'sleep 1000 >/dev/null'],
  ])('leaves nobody behind who %s', async (_who, left) => {
    const file = join(temporaryHome(), 'pid')
    expect(await ask(`${left} & echo $! >${file}; echo 1.2.3`)).toBe('1.2.3')
    await waitUntil(() => seen(Number(readFileSync(file, 'utf8'))) === undefined, 30_000, 'it is gone')
  })

  it('is ended only while its number is its own (G10)', async () => {
    const signalled: number[] = []
    const kill = process.kill.bind(process)
    vi.spyOn(process, 'kill').mockImplementation((pid, signal) => {
      signalled.push(pid)
      return kill(pid, signal)
    })
    const file = join(temporaryHome(), 'pid')
    // Its output stays open after its exit, in hands that its group does not reach.
    const asked = ask(`setsid sh -c 'echo $$ >${file}; exec sleep 1000' & while ! [ -s ${file} ]; do :; done; echo 1.2.3`)
    await waitUntil(() => signalled.length > 0, 30_000, 'it has ended')
    kill(Number(readFileSync(file, 'utf8')), 'SIGKILL')
    expect(await asked).toBe('1.2.3')
    expect(signalled).toHaveLength(1)
  })

  it('may have become somebody whom we may not end', async () => {
    vi.spyOn(process, 'kill').mockImplementation(() => {
      throw Object.assign(new Error('kill EPERM'), { code: 'EPERM' })
    })
    expect(await ask('echo 1.2.3')).toBe('1.2.3')
  })
})
