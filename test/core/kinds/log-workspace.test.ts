import { spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  appendFileSync,
  closeSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { basename, join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { policyFor } from '../../../src/core/model/close-request.ts'
import { realEffects } from '../../../src/host/effects.ts'
import type { LogRef } from '../../../src/kinds/log/kind.ts'
import { inLogScene, type LogScene } from '../../support/log-scene.ts'
import { tmpfs } from '../../support/mounts.ts'
import { needs } from '../../support/real.ts'
import { waitUntil } from '../../support/world.ts'

/** Logs in the workspace of a task. Other programs read them there, and may put other files at their paths. */

const text = (path: string): string => readFileSync(path, 'utf8')
const kept = policyFor({ trigger: 'terminated' })
const modeOf = (path: string): number => lstatSync(path).mode & 0o777

/** Meets the obligations of a log, as a close does. */
async function archive({ kind, ctx }: LogScene, ref: LogRef): Promise<void> {
  for (const obligation of kind.obligations(ref, kept)) await kind.meet(obligation, ref, ctx)
}

/** Meets the obligations of a log, releases it, and observes it. */
async function close(scene: LogScene, ref: LogRef): Promise<unknown> {
  await archive(scene, ref)
  await scene.kind.release(ref, 'kill', scene.ctx)
  await scene.kind.gone(ref, scene.ctx)
  return await scene.kind.observe(ref, scene.ctx)
}

async function written(scene: LogScene, name: string, lines: string): Promise<LogRef> {
  const ref = scene.inside(name)
  const handle = await scene.make(ref)
  writeSync(handle.fd ?? -1, lines)
  await waitUntil(() => text(ref.path) === lines, 30_000, 'the lines are in the log')
  return ref
}

describe('a log in a workspace', () => {
  it('is in the workspace with its folders at mode 0700, and its pipe is in the home', async () => {
    const names: string[] = []
    await inLogScene(
      async (scene) => {
        const ref = await written(scene, 'a_stream', 'one\n')
        expect(ref.path).toBe(join(scene.workspace, 'logs', 'a_stream.jsonl'))
        expect([modeOf(join(scene.workspace, 'logs')), modeOf(ref.path)]).toEqual([0o700, 0o600])
        expect(names).toEqual([join(scene.home, 'logs', `${ref.mark.incarnation}~${ref.mark.resourceId}.log.pipe`)])
        expect(existsSync(join(scene.workspace, 'archive'))).toBe(false)
        expect(await close(scene, ref)).toMatchObject({ is: 'absent' })
        expect(text(join(scene.workspace, 'archive', 'a_stream.jsonl'))).toBe('one\n')
        expect(modeOf(join(scene.workspace, 'archive'))).toBe(0o700)
        expect(scene.counted).toEqual(['archived 4'])
      },
      { before: (method, [path]) => void (method === 'makePipe' && names.push(String(path))) },
    )
  })

  it('becomes messages only when it is stdout or stderr', async () => {
    const read: string[] = []
    await inLogScene(
      async (scene) => {
        for (const stream of ['stdout', 'stderr', 'progress', 'findings']) {
          const ref = scene.inside(stream, { stream })
          await scene.make(ref)
          await close(scene, ref)
        }
        expect(read).toEqual(['stdout', 'stderr'])
      },
      { readToEnd: (stream) => read.push(stream) },
    )
  })

  it('is refused when a file exists at its path, and the rollback does not change that file', async () => {
    await inLogScene(async (scene) => {
      for (const writer of ['collector', 'terminal', 'supervisor'] as const) {
        const ref = scene.inside(writer, { writer })
        mkdirSync(join(scene.workspace, 'logs'), { recursive: true })
        writeFileSync(ref.path, 'foreign')
        await expect(scene.make(ref)).rejects.toMatchObject({ code: 'path_refused' })
        expect(scene.kind.obligations(ref, kept)).toEqual([])
        expect(await close(scene, ref)).toMatchObject({ is: 'absent' })
        expect(text(ref.path)).toBe('foreign')
      }
    })
  })

  it.each(['logs', 'archive'])('is neither archived nor deleted when the folder %s was replaced by a symlink', async (folder) => {
    await inLogScene(async (scene) => {
      const elsewhere = join(scene.home, 'elsewhere')
      mkdirSync(elsewhere)
      const ref = await written(scene, 'a', 'one\n')
      if (folder === 'logs') renameSync(join(scene.workspace, 'logs'), join(scene.workspace, 'moved'))
      symlinkSync(elsewhere, join(scene.workspace, folder))
      writeFileSync(join(elsewhere, 'a.jsonl'), 'precious')
      await expect(archive(scene, ref)).rejects.toMatchObject({ code: 'path_refused' })
      if (folder === 'logs') {
        await expect(scene.kind.release(ref, 'kill', scene.ctx)).rejects.toMatchObject({ code: 'path_refused' })
        expect(await scene.kind.observe(ref, scene.ctx)).toMatchObject({ is: 'present', detail: expect.stringContaining('is a link') })
      }
      expect(text(join(elsewhere, 'a.jsonl'))).toBe('precious')
      // After the symlink is removed, the obligation can be met.
      rmSync(join(scene.workspace, folder))
      if (folder === 'logs') renameSync(join(scene.workspace, 'moved'), join(scene.workspace, 'logs'))
      expect(await close(scene, ref)).toMatchObject({ is: 'absent' })
      expect(text(ref.archive)).toBe('one\n')
    })
  })

  it.each(['a link', 'a folder', 'a pipe'])('is not read and stays owed when %s replaced it', async (what) => {
    const read: string[] = []
    const test = async (scene: LogScene): Promise<void> => {
      const ref = await written(scene, 'a', 'one\n')
      rmSync(ref.path)
      const precious = join(scene.home, 'precious')
      writeFileSync(precious, 'precious')
      if (what === 'a link') symlinkSync(precious, ref.path)
      else if (what === 'a pipe') await realEffects.makePipe(ref.path)
      else mkdirSync(ref.path)
      await expect(archive(scene, ref)).rejects.toMatchObject({ code: 'path_refused' })
      await expect(scene.kind.release(ref, 'kill', scene.ctx)).rejects.toMatchObject({ code: 'path_refused' })
      expect(scene.kind.obligations(ref, kept)).toEqual(['archive'])
      expect([text(precious), existsSync(ref.archive), read]).toEqual(['precious', false, []])
    }
    await inLogScene(test, { readToEnd: (stream) => read.push(stream) })
  })

  it('is absent when its workspace was removed', async () => {
    await inLogScene(async (scene) => {
      const ref = await written(scene, 'a', 'one\n')
      rmSync(scene.workspace, { recursive: true })
      expect(scene.kind.obligations(ref, kept)).toEqual([])
      expect(await close(scene, ref)).toMatchObject({ is: 'absent' })
    })
  })
})

describe('a log that this supervisor writes', () => {
  it('is created with its first line, and archived like other logs', async () => {
    await inLogScene(async (scene) => {
      const ref = scene.inside('a_progress', { stream: 'progress', writer: 'supervisor' })
      const { append } = await scene.make(ref)
      expect(existsSync(ref.path)).toBe(false)
      for (const line of ['{"progress":1}', '{"progress":2}']) append?.(line)
      expect([text(ref.path), modeOf(ref.path)]).toEqual(['{"progress":1}\n{"progress":2}\n', 0o600])
      expect(await close(scene, ref)).toMatchObject({ is: 'absent', proof: { method: 'no such path', strength: 'kernel' } })
      expect(text(ref.archive)).toBe('{"progress":1}\n{"progress":2}\n')
    })
  })

  it('leaves nothing and owes nothing when it has no line', async () => {
    await inLogScene(async (scene) => {
      const ref = scene.inside('a', { writer: 'supervisor' })
      const { append } = await scene.make(ref)
      expect(scene.kind.obligations(ref, kept)).toEqual([])
      expect(await scene.kind.observe(ref, scene.ctx)).toMatchObject({ is: 'absent' })
      // A late line must not create a log that was observed as absent.
      expect(() => append?.('late')).toThrow(expect.objectContaining({ code: 'scope_closed' }))
      expect(readdirSync(join(scene.workspace, 'logs'))).toEqual([])
    })
  })

  it('refuses a line that would exceed its size limit', async () => {
    await inLogScene(async (scene) => {
      const ref = scene.inside('a', { writer: 'supervisor' })
      const { append } = await scene.make(ref)
      append?.('1234', 10)
      append?.('üü', 10)
      expect(() => append?.('', 10)).toThrow(expect.objectContaining({ code: 'too_large', message: expect.stringContaining(ref.path) }))
      expect(text(ref.path)).toBe('1234\nüü\n')
    })
  })

  it('is not written through a symlink, into a pipe or into a file with two names', async () => {
    await inLogScene(async (scene) => {
      const ref = scene.inside('a', { writer: 'supervisor' })
      const { append } = await scene.make(ref)
      const precious = join(scene.home, 'precious')
      writeFileSync(precious, 'precious')
      symlinkSync(precious, ref.path)
      expect(() => append?.('x')).toThrow('ELOOP')
      rmSync(ref.path)
      linkSync(precious, ref.path)
      expect(() => append?.('x')).toThrow('not a regular file with a single name')
      rmSync(ref.path)
      await realEffects.makePipe(ref.path)
      expect(() => append?.('x')).toThrow('ENXIO')
      rmSync(ref.path)
      expect(text(precious)).toBe('precious')
    })
  })

  it('can be resumed by the next supervisor', async () => {
    await inLogScene(async (scene) => {
      const ref = scene.inside('a', { writer: 'supervisor' })
      ;(await scene.make(ref)).append?.('one')
      const { append } = await scene.kind.resume(ref, scene.ctx)
      append?.('two')
      expect(text(ref.path)).toBe('one\ntwo\n')
    })
  })
})

describe('a log whose collector runs in a terminal', () => {
  it('is archived after the collector has read the end of the stream; the collector is found by its tag', async () => {
    await inLogScene(async (scene) => {
      const ref = scene.inside('a', { writer: 'terminal' })
      const handle = await scene.make(ref)
      const pipe = handle.pipe ?? expect.unreachable()
      expect(lstatSync(pipe.path).isFIFO()).toBe(true)
      const writer = openSync(pipe.path, 'r+')
      const env = { PATH: '/usr/bin:/bin', EBB_SCOPE: pipe.environmentTag }
      const tee = spawn('sh', ['-c', 'exec tee -a "$0" < "$1"', ref.path, pipe.path], { env, stdio: 'ignore' })
      const ended = once(tee, 'exit')
      writeSync(writer, 'one\n')
      await waitUntil(() => text(ref.path) === 'one\n', 30_000, 'the first line is in the log')
      for (let time = 1; time <= 2; time++) handle.done()
      expect(existsSync(pipe.path)).toBe(false)
      const met = archive(scene, ref)
      writeSync(writer, 'two\n')
      expect(existsSync(ref.archive)).toBe(false)
      closeSync(writer)
      await Promise.all([met, ended])
      expect(text(ref.archive)).toBe('one\ntwo\n')
      expect(await close(scene, ref)).toMatchObject({ is: 'absent', proof: { strength: 'scan' } })
    })
  })

  it('leaves no pipe when the collector was never started', async () => {
    await inLogScene(async (scene) => {
      const ref = scene.inside('a', { writer: 'terminal' })
      await scene.make(ref)
      await archive(scene, ref)
      // The pipe is removed before the release: no process may write to a log that is archived or held back.
      expect([readdirSync(join(scene.home, 'logs')), text(ref.archive)]).toEqual([[], ''])
      expect(await close(scene, ref)).toMatchObject({ is: 'absent' })
    })
  })
})

describe('a log that a foreign process has open', () => {
  it('is copied, so that later writes do not reach the archive, and the process is named', async () => {
    await inLogScene(async (scene) => {
      const ref = await written(scene, 'a', 'one\n')
      const stranger = spawn('sleep', ['1000'], { stdio: ['ignore', openSync(ref.path, 'a'), 'ignore'], argv0: 'sleep' })
      try {
        await once(stranger, 'spawn')
        await archive(scene, ref)
        appendFileSync(`/proc/${stranger.pid}/fd/1`, 'late\n')
        expect([text(ref.archive), existsSync(ref.path)]).toEqual(['one\n', false])
        expect(scene.notes).toEqual([`It was copied to the archive instead of moved, because sleep (pid ${stranger.pid}) has it open.`])
        expect(readdirSync(join(scene.workspace, 'archive'))).toEqual(['a.jsonl'])
      } finally {
        const ended = once(stranger, 'exit')
        stranger.kill('SIGKILL')
        await ended
      }
    })
  })
})

describe('an archive on another file system', () => {
  needs('root')

  /** Mounts a tmpfs of the given size as the folder of the archive. */
  async function withDisk(size: string, test: (scene: LogScene, folder: string) => Promise<void>): Promise<void> {
    await inLogScene(async (scene) => {
      const folder = join(scene.workspace, 'archive')
      mkdirSync(folder, { mode: 0o700 })
      using _ = tmpfs(folder, size)
      await test(scene, folder)
    })
  }

  it('gets a copy, and the original is removed', async () => {
    await withDisk('1m', async (scene, folder) => {
      const ref = await written(scene, 'a', 'one\n')
      expect(await close(scene, ref)).toMatchObject({ is: 'absent' })
      expect([readdirSync(folder), text(ref.archive), scene.notes]).toEqual([['a.jsonl'], 'one\n', []])
    })
  })

  it('holds the log back while the disk is full, leaves no half-made copy, and archives it when there is space', async () => {
    await withDisk('64k', async (scene, folder) => {
      const lines = 'x'.repeat(99).concat('\n').repeat(500)
      const ref = await written(scene, 'a', lines)
      writeFileSync(join(folder, 'ballast'), Buffer.alloc(32_768))
      await expect(archive(scene, ref)).rejects.toThrow('ENOSPC')
      expect([readdirSync(folder), text(ref.path) === lines]).toEqual([['ballast'], true])
      expect(scene.kind.obligations(ref, kept)).toEqual(['archive'])
      rmSync(join(folder, 'ballast'))
      expect(await close(scene, ref)).toMatchObject({ is: 'absent' })
      expect(text(ref.archive) === lines).toBe(true)
    })
  })

  it('makes the copy again when a crash left a half-made one', async () => {
    await withDisk('1m', async (scene, folder) => {
      const ref = await written(scene, 'a', 'one\n')
      writeFileSync(ref.staging, 'ha')
      expect(await scene.kind.observe(ref, scene.ctx)).toMatchObject({ is: 'present' })
      await archive(scene, ref)
      expect([readdirSync(folder), text(ref.archive)]).toEqual([[basename(ref.archive)], 'one\n'])
    })
  })

  it('a copy that outlasts its close is used by the next close', async () => {
    let copies = 0
    const impatient = new AbortController()
    const holders = { find: async () => [{ pid: 1, program: 'editor' }] }
    const before = (method: string): void => {
      if (method !== 'copy') return
      copies += 1
      impatient.abort()
    }
    await inLogScene(
      async (scene) => {
        const ref = await written(scene, 'a', 'one\n')
        await scene.kind.meet('archive', ref, { ...scene.ctx, signal: impatient.signal })
        expect([existsSync(ref.path), existsSync(ref.archive)]).toEqual([true, false])
        await archive(scene, ref)
        expect([copies, text(ref.archive), existsSync(ref.path)]).toEqual([1, 'one\n', false])
      },
      { holders, before },
    )
  })
})
