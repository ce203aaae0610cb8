import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { parseStat, procTable } from '../../src/resources/process-tree/proc.ts'

/** proc_pid_stat(5): fields 3 to 52 follow the command. */
function stat(command: string, state = 'S'): string {
  const more = ['9'.repeat(3), ...Array.from({ length: 29 }, (_, index) => String(index))]
  return `4711 (${command}) ${state} 100 200 300 34816 4711 4194304 1 2 3 4 5 6 7 8 20 0 1 0 292210 12345 ${more.join(' ')}\n`
}

const expected = { pid: 4711, ppid: 100, pgid: 200, sid: 300, state: 'S', startTime: '292210', cookies: undefined }

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
})
