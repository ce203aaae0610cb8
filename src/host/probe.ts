import { spawn } from 'node:child_process'

/** Lends out a folder for temporary files, and removes it with all that is in it. */
export type LendFolder = <T>(use: (path: string) => Promise<T>) => Promise<T>

/** What a program prints when it is asked for its version. It has a temp folder of its own: some unpack themselves there each time. */
export async function readVersion(
  argv: readonly string[],
  env: Readonly<Record<string, string>>,
  lend: LendFolder,
): Promise<string | undefined> {
  return await lend((TMPDIR) => firstOutput(argv, { ...env, TMPDIR }))
}

/** A program that does not say its version by then has something else in mind. */
const probeBudgetMs = 5_000
const mostBytes = 4_096

/**
 * What a program prints when it is asked for its version; undefined when it fails or takes too long. It has a process
 * group of its own, which is ended with it: a question must not leave anything running.
 */
export function firstOutput(argv: readonly string[], env: Readonly<Record<string, string>>): Promise<string | undefined> {
  const [program = '', ...args] = argv
  return new Promise((resolve) => {
    const child = spawn(program, args, { env, stdio: ['ignore', 'pipe', 'ignore'], detached: true })
    // First: without a free descriptor Node gives a child that has no streams at all, and tells the error later.
    child.once('error', () => finish(undefined))
    let text = ''
    let isRunning = true
    const finish = (answer: string | undefined): void => {
      clearTimeout(timer)
      if (isRunning) endGroup(child.pid)
      isRunning = false
      child.stdout?.destroy()
      resolve(answer)
    }
    child.stdout?.on('data', (chunk: Buffer) => {
      if (text.length < mostBytes) text += chunk.toString('utf8')
    })
    child.once('exit', () => {
      // In the moment of the exit the number of the group is still its own; later it may be somebody else's (G10).
      endGroup(child.pid)
      isRunning = false
    })
    child.once('close', (code) => finish(code === 0 ? text.slice(0, mostBytes).trim() : undefined))
    const timer = setTimeout(() => finish(undefined), probeBudgetMs)
  })
}

function endGroup(pid: number | undefined): void {
  if (pid === undefined) return
  try {
    process.kill(-pid, 'SIGKILL')
  } catch {
    // ESRCH: nobody is left. EPERM: it has become another user's, and is not ours to end.
  }
}
