import { readFileSync } from 'node:fs'
import { constants } from 'node:os'
import type { Mark } from '../../core/model/identity.ts'
import type { TreeLaunch } from '../../core/ports/process.ts'
import { setRlimitTag } from './rlimit-tag.ts'

/**
 * The few lines of `sh` between the spawn and the command: take the brand, enter through the doors, or die. `$0` is the
 * out-of-memory score, then come the doors, then `--`, then the command. They never make a door themselves.
 */
const markForOomKiller = 'echo "$0" 2>/dev/null >/proc/self/oom_score_adj'

/** A door is a `cgroup.procs` file: who writes its pid there is inside. */
const enterCgroups = `while [ "$1" != -- ]; do { echo $$ >"$1"; } 2>/dev/null || exit 125; shift; done; shift`

/** A door is a plain file: who sees it may pass, and carries the cookie already. */
const passGates = `while [ "$1" != -- ]; do [ -e "$1" ] || exit 125; shift; done; shift`

export type Gate = 'cgroup' | 'file'

const shell = '/bin/sh'

/** argv of a command that enters through the doors before it execs. Node resolves nothing: the shell searches the PATH. */
export function throughGates(
  kind: Gate,
  gates: readonly string[],
  { argv, ignoredSignals = [], mark }: Pick<TreeLaunch, 'argv' | 'ignoredSignals'> & { readonly mark: Mark },
  env: Readonly<Record<string, string>>,
): { program: string; argv: string[] } {
  const enter = kind === 'cgroup' ? enterCgroups : passGates
  const script = `{ ${markForOomKiller}; } 2>/dev/null; ${setRlimitTag(mark)}${enter}; ${ignore(ignoredSignals)}exec "$@"`
  return { program: shell, argv: ['sh', '-c', script, String(oomScore()), ...gates, '--', ...unspeakable(env), ...argv] }
}

/** libuv gives a child every signal as by default; what a shell ignores stays ignored across its exec. By number: names have aliases. */
function ignore(signals: readonly NodeJS.Signals[]): string {
  return signals.length === 0 ? '' : `trap '' ${signals.map((signal) => constants.signals[signal]).join(' ')}; `
}

/**
 * A shell forgets variables whose names it cannot speak (`BASH_FUNC_x%%`, `npm_config_//host/:key`): env(1) puts them
 * back after the door.
 */
function unspeakable(env: Readonly<Record<string, string>>): readonly string[] {
  const lost = Object.entries(env).filter(([name]) => !/^[A-Za-z_][A-Za-z0-9_]*$/.test(name) && !name.includes('='))
  return lost.length === 0 ? [] : ['/usr/bin/env', ...lost.map(([name, value]) => `${name}=${value}`)]
}

/** The kernel's out-of-memory killer takes the agent before the supervisor (proc_pid_oom_score_adj(5)). */
function oomScore(): number {
  try {
    return Math.min(1_000, Math.max(0, Number(readFileSync('/proc/self/oom_score_adj', 'utf8'))) + 500)
  } catch {
    return 500
  }
}
