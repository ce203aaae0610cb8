import { readFileSync } from 'node:fs'
import { constants } from 'node:os'
import type { Mark } from '../../core/model/identity.ts'
import type { TreeLaunch } from '../../core/ports/process.ts'
import { setRlimitTag } from './rlimit-tag.ts'

/**
 * The trampoline: lines of `sh` that run between the spawn and the command. They set the rlimit tag and pass the gates, or exit. `$0` is
 * the out-of-memory score; the arguments are the gates, then `--`, then the command. The lines never create a gate.
 */
const markForOomKiller = 'echo "$0" 2>/dev/null >/proc/self/oom_score_adj'

/** A cgroup gate is a `cgroup.procs` file: a process that writes its pid there has entered the cgroup. */
const enterCgroups = `while [ "$1" != -- ]; do { echo $$ >"$1"; } 2>/dev/null || exit 125; shift; done; shift`

/** A file gate is a plain file: a process may pass while it exists. The process carries the environment tag already. */
const passGates = `while [ "$1" != -- ]; do [ -e "$1" ] || exit 125; shift; done; shift`

export type Gate = 'cgroup' | 'file'

const shell = '/bin/sh'

/** The argv that passes the gates and then execs the command. The shell searches the PATH, not Node. */
export function throughGates(
  kind: Gate,
  gates: readonly string[],
  { argv, ignoredSignals = [], mark }: Pick<TreeLaunch, 'argv' | 'ignoredSignals'> & { readonly mark: Mark },
  env: Readonly<Record<string, string>>,
): { program: string; argv: string[] } {
  const enter = kind === 'cgroup' ? enterCgroups : passGates
  const script = `{ ${markForOomKiller}; } 2>/dev/null; ${setRlimitTag(mark)}${enter}; ${ignore(ignoredSignals)}exec "$@"`
  return { program: shell, argv: ['sh', '-c', script, String(oomScore()), ...gates, '--', ...restored(env), ...argv] }
}

/**
 * The line by which `sh` ignores signals. libuv resets every signal of a child to its default, and signals that the shell ignores stay
 * ignored after its exec. The signals are given by number, because their names have aliases.
 */
function ignore(signals: readonly NodeJS.Signals[]): string {
  return signals.length === 0 ? '' : `trap '' ${signals.map((signal) => constants.signals[signal]).join(' ')}; `
}

/**
 * The call of env(1) that restores variables after the gate. A shell drops variables whose names are no shell names (`BASH_FUNC_x%%`,
 * `npm_config_//host/:key`).
 */
function restored(env: Readonly<Record<string, string>>): readonly string[] {
  const lost = Object.entries(env).filter(([name]) => !/^[A-Za-z_][A-Za-z0-9_]*$/.test(name) && !name.includes('='))
  return lost.length === 0 ? [] : ['/usr/bin/env', ...lost.map(([name, value]) => `${name}=${value}`)]
}

/**
 * The out-of-memory score of the command. It is higher than the supervisor's, so that the kernel's out-of-memory killer ends the agent
 * first (proc_pid_oom_score_adj(5)).
 */
function oomScore(): number {
  try {
    return Math.min(1_000, Math.max(0, Number(readFileSync('/proc/self/oom_score_adj', 'utf8'))) + 500)
  } catch {
    return 500
  }
}
