import { execFile } from 'node:child_process'
import { sentence } from '../../core/model/errors.ts'

/** A short answer of somebody else's program, or why there is none. It gets neither input nor time to wait in. */
export type Answer = { readonly text: string } | { readonly problem: string }

const answerMs = 5_000
const mostBytes = 16 * 1024 * 1024

export function ask(program: string, args: readonly string[], env: Readonly<Record<string, string>>): Promise<Answer> {
  return new Promise((resolve) => {
    const options = { env, cwd: '/', timeout: answerMs, killSignal: 'SIGKILL', maxBuffer: mostBytes } as const
    const child = execFile(program, args, options, (error, stdout, stderr) => {
      resolve(error ? { problem: stderr.trim().split('\n')[0] || sentence(error) } : { text: stdout })
    })
    child.stdin?.end()
  })
}
