import type { LogHandle } from '../../core/ports/agent-log.ts'
import type { Command } from '../../core/ports/effects.ts'

/**
 * The shell script in the pane of a session, which runs beside the agent. It gets its orders through a pipe: arguments are visible in `ps`,
 * and a file would keep the environment on the disk.
 */

/**
 * `$1` is the pipe of the orders, `$2` the pipe of the events. The script opens both for reading and writing, so that it never blocks on
 * the supervisor, and no data is lost when the supervisor is gone. Opening a missing pipe this way would create a plain file that nothing
 * removes, hence the check. Until it has orders, the script ends with its terminal.
 */
export const waitForOrders = `
[ -p "$1" ] && [ -p "$2" ] || exit 125
exec 8<>"$1" 9<>"$2" || exit 125
echo ready >&9
read -r size <&8 || exit 125
orders=$(head -c "$size" <&8 9>&-) || exit 125
exec 8<&-
eval "$orders"
`

/** Puts the length in bytes before the orders, because the script in the pane reads it first. */
export function withLength(orders: string): string {
  return `${Buffer.byteLength(orders)}\n${orders}`
}

/** A shell command that reports its pid from inside the agent's cgroup and then becomes the agent. `exec` keeps the pid. */
const announce = 'echo "pid $$" >&9; exec "$@" 9>&-'

export function announced(argv: readonly string[]): readonly string[] {
  return ['/bin/sh', '-c', announce, 'pane', ...argv]
}

export interface Orders {
  readonly command: Command
  readonly stdin: string
  readonly stdout: LogHandle
  readonly stderr: LogHandle
  /** The path of the exit file. The file is written by a rename, because half of a number would be a number, too. */
  readonly exit: string
}

/**
 * All processes but the agent ignore HUP, so that a lost terminal does not lose the last lines. The collectors end when the last writer of
 * their pipe closes it. GNU tee continues when its terminal cannot be written. The reader of the terminal detects its loss: `-t` fails
 * after a hangup, whereas a Ctrl-D is only an empty line. The agent runs in the foreground, because sh lets background commands ignore
 * SIGINT.
 */
export function ordersFor({ command, stdin, stdout, stderr, exit }: Orders): string {
  const draft = quote(`${exit}.new`)
  return `
trap '' HUP INT QUIT TERM PIPE
stty -echo -ixon susp undef 2>/dev/null
exec 3<&0
${collect(stdout)}
one=$!
${collect(stderr)}
two=$!
echo "collectors $one $two" >&9
{ while [ -t 3 ]; do cat <&3 >/dev/null 2>&1 9>&-; done; echo lost >&9; } 2>/dev/null &
(
trap - HUP INT QUIT TERM PIPE
exec 3<&-
cd ${quote(command.cwd ?? '/')} || exit 125
unset TMUX TMUX_PANE TERM TERM_PROGRAM TERM_PROGRAM_VERSION SHELL OLDPWD PWD LC_ALL
${exports(command.env)}
exec ${[command.program, ...command.argv.slice(1)].map(quote).join(' ')} <${quote(stdin)} >${pipeOf(stdout)} 2>${pipeOf(stderr)}
)
code=$?
echo "$code" >${draft} && mv -f ${draft} ${quote(exit)}
echo "exit $code" >&9
trap - HUP
wait "$one" "$two"
exit 0
`
}

function collect(log: LogHandle): string {
  return `EBB_SCOPE=${quote(log.pipe?.environmentTag ?? '')} tee -a ${quote(log.path)} <${pipeOf(log)} 3<&- 9>&- &`
}

function pipeOf({ pipe }: LogHandle): string {
  return quote(pipe?.path ?? '')
}

/** Variables that some shells do not allow to be set. */
const unsettable = new Set(['PPID', 'UID', 'EUID', 'BASHOPTS', 'SHELLOPTS', 'BASH_VERSINFO', 'OPTIND'])

/** The shell commands that export the environment. Variables that a shell cannot export are passed to the command by other means. */
function exports(env: Readonly<Record<string, string>>): string {
  return Object.entries(env)
    .filter(([name]) => /^[A-Za-z_][A-Za-z0-9_]*$/.test(name) && !unsettable.has(name))
    .map(([name, value]) => `export ${name}=${quote(value)}`)
    .join('\n')
}

function quote(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`
}
