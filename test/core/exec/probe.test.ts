import { existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { realEffects } from '../../../src/host/effects.ts'
import { firstOutput, readVersion } from '../../../src/host/probe.ts'
import { LentFolders } from '../../../src/kinds/temp-folder/lent-folder.ts'
import { temporaryHome } from '../../support/home.ts'
import { seen, waitUntil } from '../../support/world.ts'

/** The version query of a program: it returns an answer or none, and has no other effect. */

const env = { PATH: '/usr/bin:/bin' }
const probe = (script: string): Promise<string | undefined> => firstOutput(['/bin/sh', '-c', script], env)

afterEach(() => {
  vi.restoreAllMocks()
})

describe('version query', () => {
  it('gives the program its own temp folder, and removes it with its contents', async () => {
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
    // The folder of the dead supervisor is removed too. The folder of the living supervisor is kept.
    expect(readdirSync(directory)).toEqual(['lent-alive_1'])
    // A query that runs during another query does not remove the folder of that query.
    const isThere = await folders.lend(async (path) => await folders.lend(async () => existsSync(path)))
    expect(isThere).toBe(true)
    await expect(folders.lend(async () => Promise.reject(new Error('no answer')))).rejects.toThrow('no answer')
    expect(readdirSync(directory)).toEqual(['lent-alive_1'])
  })

  it('returns the output, or undefined when the program fails', async () => {
    expect(await probe('echo 1.2.3')).toBe('1.2.3')
    expect(await probe('echo 1.2.3; exit 1')).toBeUndefined()
    expect(await firstOutput(['/nonexistent/program'], env)).toBeUndefined()
  })

  it.each([
    ['holds the output open', 'sleep 1000'],
    ['has closed the output', 'sleep 1000 >/dev/null'],
  ])('ends a child of the program that %s', async (_which, left) => {
    const file = join(temporaryHome(), 'pid')
    expect(await probe(`${left} & echo $! >${file}; echo 1.2.3`)).toBe('1.2.3')
    await waitUntil(() => seen(Number(readFileSync(file, 'utf8'))) === undefined, 30_000, 'it is gone')
  })

  it('signals the process group only while its number cannot be reused (G10)', async () => {
    const signalled: number[] = []
    const kill = process.kill.bind(process)
    vi.spyOn(process, 'kill').mockImplementation((pid, signal) => {
      signalled.push(pid)
      return kill(pid, signal)
    })
    const file = join(temporaryHome(), 'pid')
    // A process in another group holds the output open after the exit of the program.
    const asked = probe(`setsid sh -c 'echo $$ >${file}; exec sleep 1000' & while ! [ -s ${file} ]; do :; done; echo 1.2.3`)
    await waitUntil(() => signalled.length > 0, 30_000, 'it has ended')
    kill(Number(readFileSync(file, 'utf8')), 'SIGKILL')
    expect(await asked).toBe('1.2.3')
    expect(signalled).toHaveLength(1)
  })

  it('ignores EPERM when it ends the process group', async () => {
    vi.spyOn(process, 'kill').mockImplementation(() => {
      throw Object.assign(new Error('kill EPERM'), { code: 'EPERM' })
    })
    expect(await probe('echo 1.2.3')).toBe('1.2.3')
  })
})
