import { spawn } from 'node:child_process'

/** Calls `use` with a new folder for temporary files, and removes the folder with its contents afterwards. */
export type LendFolder = <T>(use: (path: string) => Promise<T>) => Promise<T>

/**
 * Runs a version command and returns its output. The program gets its own temp folder, because some programs unpack themselves there at
 * each start.
 */
export async function readVersion(
  argv: readonly string[],
  env: Readonly<Record<string, string>>,
  lend: LendFolder,
): Promise<string | undefined> {
  return await lend((TMPDIR) => firstOutput(argv, { ...env, TMPDIR }))
}

/** The time that a version command gets. A program that has not printed its version by then probably does something else. */
const probeBudgetMs = 5_000
const maxBytes = 4_096

/**
 * The first bytes that a command prints; undefined when it fails or takes too long. The command gets its own process group, and the
 * whole group is killed with it, so that the probe leaves nothing running.
 */
export function firstOutput(argv: readonly string[], env: Readonly<Record<string, string>>): Promise<string | undefined> {
  const [program = '', ...args] = argv
  return new Promise((resolve) => {
    const child = spawn(program, args, { env, stdio: ['ignore', 'pipe', 'ignore'], detached: true })
    // The error handler is attached first: without a free descriptor Node returns a child without streams, and emits the error later.
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
      if (text.length < maxBytes) text += chunk.toString('utf8')
    })
    child.once('exit', () => {
      // At the exit event the group's number cannot have been reused yet; later it may name another group (G10).
      endGroup(child.pid)
      isRunning = false
    })
    child.once('close', (code) => finish(code === 0 ? text.slice(0, maxBytes).trim() : undefined))
    const timer = setTimeout(() => finish(undefined), probeBudgetMs)
  })
}

function endGroup(pid: number | undefined): void {
  if (pid === undefined) return
  try {
    process.kill(-pid, 'SIGKILL')
  } catch {
    // ESRCH: the group is empty. EPERM: its processes run as another user by now, and this process may not signal them.
  }
}
