import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { linkSync, mkdirSync, openSync, readdirSync, rmSync, statSync, symlinkSync, unlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { Holders } from '../../../src/kinds/log/holders.ts'
import { nodeProgram, temporaryHome } from '../../support/home.ts'
import { inLogScene } from '../../support/log-scene.ts'

/** `Holders` finds the processes that have a file open. */

/** Starts a program that has the file open until it is disposed. */
async function holding(path: string): Promise<AsyncDisposable & { readonly pid: number | undefined }> {
  const child = spawn('sleep', ['1000'], { stdio: ['ignore', openSync(path, 'a'), 'ignore'] })
  await once(child, 'spawn')
  const end = async (): Promise<void> => {
    const ended = once(child, 'exit')
    child.kill('SIGKILL')
    await ended
  }
  return { pid: child.pid, [Symbol.asyncDispose]: end }
}

function files(): { readonly log: string; readonly other: string } {
  const home = temporaryHome()
  const [log, other] = [join(home, 'log'), join(home, 'other')]
  for (const path of [log, other]) writeFileSync(path, '')
  return { log, other }
}

describe('Holders', () => {
  it('finds a holder that opened the file under another name, also after that name was removed', async () => {
    const { log, other } = files()
    rmSync(other)
    linkSync(log, other)
    await using holder = await holding(other)
    const found = [{ pid: holder.pid, program: 'sleep' }]
    expect(await new Holders().find(log)).toEqual(found)
    unlinkSync(other)
    expect(await new Holders().find(log)).toEqual(found)
  })

  it('finds a holder whose path is too long for the kernel to show, and not for another file there', async () => {
    const { log, other } = files()
    const deep = `for (let depth = 0; depth < 45; depth++) { fs.mkdirSync(process.argv[1]); process.chdir(process.argv[1]) }
      fs.linkSync(process.argv[2], 'same'); fs.openSync('same'); fs.openSync('else', 'w'); console.log('there'); setInterval(() => {}, 1000)`
    const child = spawn(nodeProgram, ['-e', deep, 'x'.repeat(100), log], { cwd: dirname(log), stdio: ['ignore', 'pipe', 'inherit'] })
    try {
      await once(child.stdout, 'data')
      expect(await new Holders().find(log)).toEqual([{ pid: child.pid, program: expect.any(String) }])
      expect(await new Holders().find(other)).toEqual([])
    } finally {
      const ended = once(child, 'exit')
      child.kill('SIGKILL')
      await ended
    }
  })

  it('tells the holders of several files apart in one pass', async () => {
    const { log, other } = files()
    await using holder = await holding(other)
    const holders = new Holders()
    expect(await Promise.all([log, other, `${log}.none`].map((path) => holders.find(path)))).toEqual([
      [],
      [{ pid: holder.pid, program: 'sleep' }],
      [],
    ])
    expect(holders.passes).toBe(1)
  })

  it('searches for fifty logs at once in at most three passes', async () => {
    const holders = new Holders()
    await inLogScene(
      async (scene) => {
        const refs = Array.from({ length: 50 }, (_, index) => scene.inside(`a${index}`, { writer: 'supervisor' }))
        for (const ref of refs) (await scene.make(ref)).append?.('x')
        await Promise.all(refs.map((ref) => scene.kind.meet('archive', ref, scene.ctx)))
        expect(holders.passes).toBeLessThanOrEqual(3)
        expect(readdirSync(join(scene.workspace, 'archive'))).toHaveLength(50)
      },
      { holders },
    )
  })

  it('finds no holder without /proc', async () => {
    expect(await new Holders('/nonexistent').find('/etc/passwd')).toEqual([])
  })
})

describe('Holders with a simulated /proc', () => {
  /** A /proc with one process, which has one file open. */
  function proc(link: string, fdinfo: string): Holders {
    const directory = join(temporaryHome(), 'proc')
    for (const folder of ['fd', 'fdinfo']) mkdirSync(join(directory, '4000000', folder), { recursive: true })
    symlinkSync('/proc/self', join(directory, 'self'))
    symlinkSync(link, join(directory, '4000000', 'fd', '3'))
    writeFileSync(join(directory, '4000000', 'fdinfo', '3'), fdinfo)
    writeFileSync(join(directory, '4000000', 'mountinfo'), '7 1 99:99 / / rw - x x rw\n')
    return new Holders(directory)
  }

  it('compares the inode in fdinfo and never calls stat on the file, whose disk may not answer', async () => {
    const { log, other } = files()
    rmSync(other)
    linkSync(log, other)
    expect(await proc(other, 'pos:\t0\nmnt_id:\t7\nino:\t1\n').find(log)).toEqual([])
  })

  it('treats the same inode number on another file system as another file', async () => {
    const { log } = files()
    const { ino } = statSync(log)
    expect(await proc('/elsewhere/log', `mnt_id:\t7\nino:\t${ino}\n`).find(log)).toEqual([])
  })
})
