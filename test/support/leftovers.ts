import { execFileSync } from 'node:child_process'
import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fixture } from './fixtures.ts'
import { temporaryHome } from './home.ts'
import { currentMark } from './mark.ts'
import { isMarked, seen, survivors, waitUntil } from './world.ts'

/**
 * Planted leftovers and innocents: real processes with the names and words of the real ones, that lose their parent as the real
 * ones do. Everything carries the test's mark, by which it is found again and ended.
 */

/** Variables by which what we plant would be somebody's. */
const foreign = /^(EBB_(?!TEST)|CLAUDE|GEMINI|OPENCODE|CODEX|TMUX)/

export interface Planting {
  readonly env?: Readonly<Record<string, string>>
  /** For the shell that starts it and goes; `"$@"` are the words. */
  readonly shell?: string
  /** Before `setsid`, such as another user. */
  readonly through?: readonly string[]
}

export class Garden implements AsyncDisposable {
  readonly folder = temporaryHome()
  readonly mark = currentMark()

  /** A program of this name that waits for ever; with a path, in folders of that name. */
  program(name: string): string {
    const path = join(this.folder, name)
    mkdirSync(dirname(path), { recursive: true })
    copyFileSync(fixture('waits'), path)
    return path
  }

  /** A script of this name that waits for ever in a child. */
  script(name: string, body = 'sleep 10000; :'): string {
    const path = join(this.folder, name)
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, `#!/bin/sh\n${body}\n`, { mode: 0o755 })
    return path
  }

  /** What is planted gets nothing of the tester's but the mark. */
  environment(more: Readonly<Record<string, string>> = {}): Record<string, string> {
    const own = Object.entries(process.env).filter((entry): entry is [string, string] => entry[1] !== undefined && !foreign.test(entry[0]))
    return { ...Object.fromEntries(own), HOME: this.folder, ...more }
  }

  /** Its session's leader starts it, says its pid, and is gone. */
  async orphan(
    words: readonly string[],
    { env, shell = '"$@" </dev/null >/dev/null 2>&1 & echo $!', through = [] }: Planting = {},
  ): Promise<number> {
    const argv = [...through, 'setsid', 'sh', '-c', shell, 'sh', ...words]
    const said = execFileSync(argv[0] ?? '', argv.slice(1), {
      env: this.environment(env),
      encoding: 'utf8',
      cwd: '/',
      timeout: 20_000,
      stdio: ['ignore', 'pipe', 'ignore'],
    })
    const pid = Number(said.trim().split('\n').at(-1))
    await waitUntil(() => isItself(pid), 20_000, `${words.join(' ')} has become itself`)
    return pid
  }

  /** None of those, and all of these. */
  isOurs = (pid: number): boolean => {
    const one = seen(pid)
    return one !== undefined && isMarked(one, this.mark)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await waitUntil(
      () => {
        const left = survivors(this.mark)
        for (const { pid } of left) quietKill(pid)
        return left
      },
      10_000,
      'what was planted is gone',
    )
  }
}

/** Forked, but not yet what it will be: its words are still those of the shell, or, in the middle of an exec, none. */
function isItself(pid: number): boolean {
  const [first, second] = seen(pid)?.argv.split('\0') ?? []
  return first !== undefined && first !== '' && !(first === 'sh' && second === '-c') && first !== 'setsid'
}

function quietKill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // It went by itself.
  }
}

/** The same process, not stopped, and not another with its pid. */
export function watch(pid: number): () => boolean {
  const before = seen(pid)
  return () => before !== undefined && seen(pid)?.startTime === before.startTime && seen(pid)?.state !== 'T'
}
