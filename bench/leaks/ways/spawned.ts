import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process'
import type { Answer, Launch } from '../way.ts'

/** A child process from `node:child_process`. */
export interface Spawned {
  readonly child: ChildProcess
  readonly pid: number
  /** The exit code of the child, or the name of the signal that ended it. */
  readonly exited: Promise<string>
}

export async function spawnProgram(launch: Launch, argv: readonly string[] = launch.argv, options: SpawnOptions = {}): Promise<Spawned> {
  const [program = '', ...words] = argv
  const child = spawn(program, words, {
    cwd: launch.place.work,
    env: { ...launch.env },
    stdio: [launch.input === 'open' ? launch.place.inputDescriptor : 'ignore', 'pipe', 'pipe'],
    ...options,
  })
  // Output must be read, or the program would block at a full pipe.
  child.stdout?.resume()
  child.stderr?.resume()
  const exited = new Promise<string>((resolve) => child.once('exit', (code, signal) => resolve(signal ?? `exit code ${code}`)))
  await new Promise<void>((resolve, reject) => child.once('spawn', resolve).once('error', reject))
  return { child, pid: child.pid ?? 0, exited }
}

/** Sends the signal and waits for the exit of the started process. The sender of a signal gets no other information. */
export async function untilExit({ exited }: Spawned, send: () => void | Promise<void>): Promise<Answer> {
  try {
    await send()
  } catch (error) {
    return { isDone: false, words: String(error) }
  }
  return { isDone: true, words: `the process exited (${await exited})` }
}
