import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import * as fc from 'fast-check'
import { describe, expect, it, vi } from 'vitest'
import { kernelThreads, parseStat, procTable } from '../../../../src/host/processes/proc.ts'
import { fixture } from '../../../support/fixtures.ts'
import { nodeProgram } from '../../../support/home.ts'
import { NamespaceShell } from '../../../support/namespace-shell.ts'
import { needs } from '../../../support/real.ts'
import { processes, waitUntil } from '../../../support/world.ts'

/** proc_pid_stat(5): fields 3 to 52 follow the command. */
function stat(command: string, state = 'S'): string {
  const more = ['9'.repeat(3), ...Array.from({ length: 29 }, (_, index) => String(index))]
  return `4711 (${command}) ${state} 100 200 300 34816 4711 4194304 1 2 3 4 5 6 7 8 20 0 1 0 292210 12345 ${more.join(' ')}\n`
}

const expected = { pid: 4711, ppid: 100, pgid: 200, sid: 300, state: 'S', startTime: '292210', environmentTags: undefined }

describe('parseStat', () => {
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
  ])('reads a line with the command name %j', (command) => {
    expect(parseStat(stat(command))).toEqual({ ...expected, command })
  })

  it('reads a line with any command name', () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 15 }), (command) => {
        expect(parseStat(stat(command))).toEqual({ ...expected, command })
      }),
    )
  })

  it('reads the state of a zombie', () => {
    expect(parseStat(stat('sh', 'Z'))?.state).toBe('Z')
  })

  it.each(['', 'nothing', '4711 sh S 1 1 1', ')4711('])('returns undefined for %j', (text) => {
    expect(parseStat(text)).toBeUndefined()
  })
})

describe('procTable', () => {
  it('finds this process, and no process at an impossible pid', () => {
    expect(procTable.find(process.pid)).toMatchObject({ pid: process.pid, ppid: process.ppid })
    expect(procTable.find(2 ** 30)).toBeUndefined()
  })

  it('starts a scan that is requested during another one after it, so that it proves what happened before the request', async () => {
    const first = procTable.snapshot()
    const second = procTable.snapshot()
    expect(second).toBe(first)
    await first
    expect(procTable.snapshot()).not.toBe(first)
    expect((await procTable.snapshot()).some(({ pid }) => pid === process.pid)).toBe(true)
  })

  /** A process that execs again and again. During each exec(2) its environment is empty for a moment. */
  function execForever(): ChildProcess {
    const program = `[ -t 0 ] || exec /bin/sh -c "$0" "$0"`
    return spawn('/bin/sh', ['-c', program, program], { stdio: 'ignore', detached: true, env: { EBB_SCOPE: 'a-tag' } })
  }

  /** Each scan, with the time that it waits for a process in the middle of an exec(2). Asynchronous scans wait longer. */
  it.each([
    ['marked', 1_000, async () => await procTable.marked()],
    ['snapshot', 250, async () => await procTable.snapshot()],
    ['markedNow', 1_000, async () => procTable.markedNow()],
    [
      'the process list of the tests',
      3_000,
      async () => processes().map(({ pid, environ }) => ({ pid, environmentTags: /EBB_SCOPE=([^\0]*)/.exec(environ)?.[1] })),
    ],
  ] as const)('%s finds the environment tag of a process in the middle of an exec(2)', async (_name, waitMs, scan) => {
    const child = execForever()
    try {
      let missed = 0
      for (let scans = 0; scans < 400; scans++) {
        const beganMs = performance.now()
        const isFound = (await scan()).find(({ pid }) => pid === child.pid)?.environmentTags === 'a-tag'
        // A process that got no processor time during the whole wait counts as a hung exec, and the scan gives up on it. So only faster
        // misses are counted.
        if (!isFound && performance.now() - beganMs < waitMs) missed += 1
      }
      expect(missed).toBe(0)
    } finally {
      child.kill('SIGKILL')
      await once(child, 'exit')
    }
  })

  it('finds the environment tag of a process whose main thread has ended while another thread runs', async () => {
    const child = spawn(fixture('ends-its-main-thread'), [], { stdio: ['ignore', 'pipe', 'inherit'], env: { EBB_SCOPE: 'a-tag' } })
    try {
      await waitUntil(() => procTable.find(child.pid ?? 0)?.state === 'Z', 10_000, 'its main thread has ended')
      const scans = [await procTable.marked(), await procTable.snapshot(), procTable.markedNow()]
      expect(scans.map((seen) => seen.find(({ pid }) => pid === child.pid)?.environmentTags)).toEqual(['a-tag', 'a-tag', 'a-tag'])
    } finally {
      child.kill('SIGKILL')
      await once(child, 'exit')
    }
  })

  it('finds no tag on a process with an empty environment', async () => {
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

  it('does not wait for an environment that the process has unmapped, and finds the rlimit tag', async () => {
    const program = fixture('unmaps-its-environment')
    const child = spawn('/bin/sh', ['-c', 'ulimit -m 4503599627370497; exec "$0"', program], { env: { EBB_SCOPE: 'a-tag' } })
    // The clock that the scan reads stands still. A scan that waits for a deadline never reaches it, and gets an error after 20 s.
    const beganMs = performance.now()
    const clock = vi.spyOn(process.hrtime, 'bigint').mockImplementation(() => {
      if (performance.now() - beganMs > 20_000) throw new Error('The scan waits for a deadline.')
      return 0n
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

describe('kernelThreads', () => {
  const isKernelThread = (pid: number): boolean => (Number(fieldsAfterCommand(pid)[6]) & 0x00200000) !== 0
  const fieldsAfterCommand = (pid: number): readonly string[] => {
    const text = readFileSync(`/proc/${pid}/stat`, 'latin1')
    return text.slice(text.lastIndexOf(')') + 2).split(' ')
  }

  it('contains only processes with the flag of kernel threads', () => {
    const threads = [...kernelThreads()].filter((pid) => existsSync(`/proc/${pid}`))
    expect(threads.filter((pid) => !isKernelThread(pid))).toEqual([])
  })
})

describe('kernelThreads in a pid namespace', () => {
  needs('root', 'unshare')

  it('contains no child of pid 2, which is an ordinary process there', async () => {
    await using shell = new NamespaceShell({})
    // A child without an executable: it has ended, and its parent does not wait for it.
    expect(await shell.run('sh -c "true & exec sleep 1000" >/dev/null & echo $!')).toBe('2')
    const hasEnded = '[ -n "$child" ] && grep -qs "^State:.Z" "/proc/$child/status"'
    const child = await shell.run(`until read -r child </proc/2/task/2/children; ${hasEnded}; do :; done; echo $child`)
    const module = join(import.meta.dirname, '../../../../src/host/processes/proc.ts')
    const script = `import('${module}').then(({ kernelThreads, readEntry }) => console.log(readEntry(${child}), kernelThreads()))`
    const answer = await shell.run(`${nodeProgram} --disable-warning=ExperimentalWarning -e "${script}"`)
    expect(answer).toMatch(/ppid: 2,/)
    expect(answer).toMatch(/Set\(0\) \{\}$/)
  })
})
