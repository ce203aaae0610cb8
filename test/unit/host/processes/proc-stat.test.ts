import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import * as fc from 'fast-check'
import { describe, expect, it, vi } from 'vitest'
import { parseStat, procTable } from '../../../../src/host/processes/proc.ts'
import { fixture } from '../../../support/fixtures.ts'
import { processes, waitUntil } from '../../../support/world.ts'

/** proc_pid_stat(5): fields 3 to 52 follow the command. */
function stat(command: string, state = 'S'): string {
  const more = ['9'.repeat(3), ...Array.from({ length: 29 }, (_, index) => String(index))]
  return `4711 (${command}) ${state} 100 200 300 34816 4711 4194304 1 2 3 4 5 6 7 8 20 0 1 0 292210 12345 ${more.join(' ')}\n`
}

const expected = { pid: 4711, ppid: 100, pgid: 200, sid: 300, state: 'S', startTime: '292210', environmentTags: undefined }

describe('a line of /proc/PID/stat', () => {
  it.each([
    'sh',
    'tmux: server',
    'a (b) c',
    ') S 1 1 1 0 0',
    '((((',
    '))))',
    '',
    ' ',
    'new\nline',
    ') R 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 1 (',
    '(sd-pam)',
  ])('is read rightly for a command that calls itself %j', (command) => {
    expect(parseStat(stat(command))).toEqual({ ...expected, command })
  })

  it('is read rightly whatever the command calls itself', () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 15 }), (command) => {
        expect(parseStat(stat(command))).toEqual({ ...expected, command })
      }),
    )
  })

  it('says when it is a zombie', () => {
    expect(parseStat(stat('sh', 'Z'))?.state).toBe('Z')
  })

  it.each(['', 'nothing', '4711 sh S 1 1 1', ')4711('])('%j is no process', (text) => {
    expect(parseStat(text)).toBeUndefined()
  })
})

describe('the process table of Linux', () => {
  it('finds ourselves, with what we carry, and nobody at a pid that cannot be', () => {
    expect(procTable.find(process.pid)).toMatchObject({ pid: process.pid, ppid: process.ppid })
    expect(procTable.find(2 ** 30)).toBeUndefined()
  })

  it('a scan that is asked for while one runs begins after it, so that it proves what happened before', async () => {
    const first = procTable.snapshot()
    const second = procTable.snapshot()
    expect(second).toBe(first)
    await first
    expect(procTable.snapshot()).not.toBe(first)
    expect((await procTable.snapshot()).some(({ pid }) => pid === process.pid)).toBe(true)
  })

  /** exec(2) again and again, in one process: its environment is empty, to whoever looks, for a moment of each. */
  function execsForEver(): ChildProcess {
    const program = `[ -t 0 ] || exec /bin/sh -c "$0" "$0"`
    return spawn('/bin/sh', ['-c', program, program], { stdio: 'ignore', detached: true, env: { EBB_SCOPE: 'a-cookie' } })
  }

  /** With how long each waits for one that is between two programs: beside other work for longer than in place. */
  it.each([
    ['marked', 1_000, async () => await procTable.marked()],
    ['snapshot', 250, async () => await procTable.snapshot()],
    ['markedNow', 1_000, async () => procTable.markedNow()],
    [
      'our own checker',
      3_000,
      async () => processes().map(({ pid, environ }) => ({ pid, environmentTags: /EBB_SCOPE=([^\0]*)/.exec(environ)?.[1] })),
    ],
  ] as const)('%s finds the mark also of a process that becomes another program just now', async (_name, waitMs, look) => {
    const child = execsForEver()
    try {
      let missed = 0
      for (let looks = 0; looks < 400; looks++) {
        const beganMs = performance.now()
        const isFound = (await look()).find(({ pid }) => pid === child.pid)?.environmentTags === 'a-cookie'
        // Who had no processor for all of that time is an exec that hangs, which has its end.
        if (!isFound && performance.now() - beganMs < waitMs) missed += 1
      }
      expect(missed).toBe(0)
    } finally {
      child.kill('SIGKILL')
      await once(child, 'exit')
    }
  })

  it('finds the mark also of a process whose main thread has ended while another runs on', async () => {
    const child = spawn(fixture('ends-its-main-thread'), [], { stdio: ['ignore', 'pipe', 'inherit'], env: { EBB_SCOPE: 'a-cookie' } })
    try {
      await waitUntil(() => procTable.find(child.pid ?? 0)?.state === 'Z', 10_000, 'its main thread has ended')
      const looks = [await procTable.marked(), await procTable.snapshot(), procTable.markedNow()]
      expect(looks.map((seen) => seen.find(({ pid }) => pid === child.pid)?.environmentTags)).toEqual(['a-cookie', 'a-cookie', 'a-cookie'])
    } finally {
      child.kill('SIGKILL')
      await once(child, 'exit')
    }
  })

  it('finds no mark where there is none: an empty environment, a kernel thread, a zombie', async () => {
    const child = spawn('/bin/sleep', ['1000'], { stdio: 'ignore', env: {} })
    try {
      await once(child, 'spawn')
      expect(readFileSync(`/proc/${child.pid}/environ`)).toHaveLength(0)
      expect((await procTable.marked()).some(({ pid }) => pid === child.pid)).toBe(false)
      expect((await procTable.snapshot()).find(({ pid }) => pid === child.pid)).toMatchObject({ environmentTags: undefined })
    } finally {
      child.kill('SIGKILL')
      await once(child, 'exit')
    }
  })

  it('does not wait for an environment that somebody has unmapped, and finds the brand', async () => {
    const program = fixture('unmaps-its-environment')
    const child = spawn('/bin/sh', ['-c', 'ulimit -m 4503599627370497; exec "$0"', program], { env: { EBB_SCOPE: 'a-cookie' } })
    // A clock that stands still: who waits for a deadline waits until this one is tired of it.
    const realNow = performance.now.bind(performance)
    const beganMs = realNow()
    const clock = vi.spyOn(performance, 'now').mockImplementation(() => {
      if (realNow() - beganMs > 20_000) throw new Error('It waits.')
      return 0
    })
    try {
      await once(child.stdout, 'data')
      const rlimitTag = String(4_503_599_627_370_497n * 1_024n)
      expect(procTable.markedNow().find(({ pid }) => pid === child.pid)).toEqual({ pid: child.pid, environmentTags: '', rlimitTag })
      expect((await procTable.marked()).find(({ pid }) => pid === child.pid)).toMatchObject({ rlimitTag })
      expect((await procTable.snapshot()).find(({ pid }) => pid === child.pid)).toMatchObject({ environmentTags: undefined, rlimitTag })
    } finally {
      clock.mockRestore()
      child.kill('SIGKILL')
      await once(child, 'exit')
    }
  })
})
