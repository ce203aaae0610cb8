import { spawn } from 'node:child_process'
import { errno } from '../domain/errors.ts'

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
    let text = ''
    const finish = (answer: string | undefined): void => {
      clearTimeout(timer)
      endGroup(child.pid)
      child.stdout.destroy()
      resolve(answer)
    }
    const timer = setTimeout(() => finish(undefined), probeBudgetMs)
    child.stdout.on('data', (chunk: Buffer) => {
      if (text.length < mostBytes) text += chunk.toString('utf8')
    })
    child.once('error', () => finish(undefined))
    child.once('close', (code) => finish(code === 0 ? text.slice(0, mostBytes).trim() : undefined))
  })
}

function endGroup(pid: number | undefined): void {
  if (pid === undefined) return
  try {
    process.kill(-pid, 'SIGKILL')
  } catch (error) {
    if (errno(error) !== 'ESRCH') throw error
  }
}
