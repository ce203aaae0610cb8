import { execFile } from 'node:child_process'
import { sentence } from '../../core/model/errors.ts'

/** The output of a program, or the reason why there is none. The program gets no input, and is killed after `answerMs`. */
export type Answer = { readonly text: string } | { readonly problem: string }

export const answerMs = 5_000
const maxBytes = 16 * 1024 * 1024

export function ask(program: string, args: readonly string[], env: Readonly<Record<string, string>>): Promise<Answer> {
  return new Promise((resolve) => {
    const options = { env, cwd: '/', timeout: answerMs, killSignal: 'SIGKILL', maxBuffer: maxBytes } as const
    const child = execFile(program, args, options, (error, stdout, stderr) => {
      resolve(error ? { problem: stderr.trim().split('\n')[0] || sentence(error) } : { text: stdout })
    })
    child.stdin?.end()
  })
}
