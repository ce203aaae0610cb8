import { execFileSync } from 'node:child_process'
import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fixture } from './fixtures.ts'
import { temporaryHome } from './home.ts'
import { currentMark } from './mark.ts'
import { isMarked, seen, survivors, waitUntil } from './world.ts'

/**
 * Planted leftovers and innocent processes: real processes with the names and arguments of real agents, which lose their parent as those
 * do. All carry the test's mark, by which they are found and ended.
 */

/** Variables that would make a planted process look owned by an agent or by Ebb. */
const foreign = /^(EBB_(?!TEST)|CLAUDE|GEMINI|OPENCODE|CODEX|TMUX)/

export interface Planting {
  readonly env?: Readonly<Record<string, string>>
  /** Code of the shell that starts the process and exits. `"$@"` is the command. */
  readonly shell?: string
  /** A wrapper in front of `setsid`, such as one that changes the user. */
  readonly through?: readonly string[]
}

export class Garden implements AsyncDisposable {
  readonly folder = temporaryHome()
  readonly mark = currentMark()

  /** A copy of the waiting program under this name or path. */
  program(name: string): string {
    const path = join(this.folder, name)
    mkdirSync(dirname(path), { recursive: true })
    copyFileSync(fixture('waits'), path)
    return path
  }

  /** A script of this name that waits forever in a child process. */
  script(name: string, body = 'sleep 10000; :'): string {
    const path = join(this.folder, name)
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, `#!/bin/sh\n${body}\n`, { mode: 0o755 })
    return path
  }

  /** The environment of a planted process: the tester's own, without variables of an agent or of Ebb. */
  environment(more: Readonly<Record<string, string>> = {}): Record<string, string> {
    const own = Object.entries(process.env).filter((entry): entry is [string, string] => entry[1] !== undefined && !foreign.test(entry[0]))
    return { ...Object.fromEntries(own), HOME: this.folder, ...more }
  }

  /** Starts a process whose session leader prints the pid and exits. */
  async orphan(
    words: readonly string[],
    { env, shell = '"$@" </dev/null >/dev/null 2>&1 & echo $!', through = [] }: Planting = {},
  ): Promise<number> {
    const argv = [...through, 'setsid', 'sh', '-c', shell, 'sh', ...words]
    const output = execFileSync(argv[0] ?? '', argv.slice(1), {
      env: this.environment(env),
      encoding: 'utf8',
      cwd: '/',
      timeout: 20_000,
      stdio: ['ignore', 'pipe', 'ignore'],
    })
    const pid = Number(output.trim().split('\n').at(-1))
    await waitUntil(() => isItself(pid), 20_000, `${words.join(' ')} has called exec`)
    return pid
  }

  /** Whether a process carries this test's mark. */
  isOurs = (pid: number): boolean => {
    const found = seen(pid)
    return found !== undefined && isMarked(found, this.mark)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await waitUntil(
      () => {
        const left = survivors(this.mark)
        for (const { pid } of left) quietKill(pid)
        return left
      },
      10_000,
      'the planted processes are gone',
    )
  }
}

/** False between fork and exec: the arguments are still those of the shell, or empty in the middle of an exec. */
function isItself(pid: number): boolean {
  const [first, second] = seen(pid)?.argv.split('\0') ?? []
  return first !== undefined && first !== '' && !(first === 'sh' && second === '-c') && first !== 'setsid'
}

function quietKill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // The process has ended by itself (ESRCH).
  }
}

/** Returns a check that the process still runs, is not stopped, and is the same one (start time). */
export function watch(pid: number): () => boolean {
  const before = seen(pid)
  return () => before !== undefined && seen(pid)?.startTime === before.startTime && seen(pid)?.state !== 'T'
}
