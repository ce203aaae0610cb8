import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process'
import type { Answer, Launch } from '../way.ts'

/** A child of ours, as `node:child_process` gives it. */
export interface Spawned {
  readonly child: ChildProcess
  readonly pid: number
  /** As a shell would say it: the code, or the name of the signal. */
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
  // Read, or a talkative program would stop at a full pipe.
  child.stdout?.resume()
  child.stderr?.resume()
  const exited = new Promise<string>((resolve) => child.once('exit', (code, signal) => resolve(signal ?? `exit code ${code}`)))
  await new Promise<void>((resolve, reject) => child.once('spawn', resolve).once('error', reject))
  return { child, pid: child.pid ?? 0, exited }
}

/** Whoever sends a signal sees it arrive, and then the exit of the process that it started: more it is not told. */
export async function untilExit({ exited }: Spawned, send: () => void | Promise<void>): Promise<Answer> {
  try {
    await send()
  } catch (error) {
    return { isDone: false, words: String(error) }
  }
  return { isDone: true, words: `the process has ended (${await exited})` }
}
