import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Limits } from '../../src/core/ports/process.ts'
import { nodeProgram, root } from './home.ts'

/** A supervisor in a process of its own that a test can kill. Leaving the block kills it too. */
export interface OtherSupervisor extends AsyncDisposable {
  readonly pid: number
  readonly scopeId: string
  readonly incarnation: string
  /** The pid of the command that the supervisor runs. */
  readonly tree: number
  readonly archive: string
  /** Sends SIGKILL and resolves when the process has exited. */
  kill(): Promise<void>
}

export interface OtherOptions {
  readonly home: string
  readonly containment: 'cgroup' | 'subreaper' | 'scan'
  readonly argv: readonly string[]
  readonly limits?: Limits
}

export async function startOther(options: OtherOptions): Promise<OtherSupervisor> {
  const child = spawn(nodeProgram, otherArguments(options), { stdio: ['ignore', 'pipe', 'inherit'] })
  const announced = await firstLine(child)
  const gone = once(child, 'exit')
  const kill = async (): Promise<void> => {
    child.kill('SIGKILL')
    await gone
  }
  return { pid: child.pid ?? 0, ...announced, kill, [Symbol.asyncDispose]: kill }
}

export function otherArguments({ home, containment, limits, argv }: OtherOptions): readonly string[] {
  const program = join(root, 'test', 'fixtures', 'supervises-a-command.ts')
  return ['--disable-warning=ExperimentalWarning', program, home, containment, limits ? JSON.stringify(limits) : '', ...argv]
}

/** The first line that the supervisor prints. */
type Announced = Pick<OtherSupervisor, 'scopeId' | 'incarnation' | 'tree' | 'archive'>

export async function firstLine(child: ChildProcess): Promise<Announced> {
  if (!child.stdout) throw new Error('The supervisor was started without a pipe.')
  for await (const line of createInterface({ input: child.stdout })) return JSON.parse(line) as Announced
  throw new Error('The supervisor ended before it had launched its command.')
}
