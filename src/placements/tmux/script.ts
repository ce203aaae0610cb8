import type { Command } from '../../core/ports/effects.ts'
import type { LogHandle } from '../../core/ports/process.ts'

/**
 * What runs in the pane of a session: a few lines of `sh`, which stay there beside the agent. They are told what to start
 * through a pipe, because everybody sees arguments in `ps`, and a file would keep the environment on the disk.
 */

/**
 * `$1` is the pipe of the orders, `$2` the one on which it tells what happens. Both are opened for both sides, so that
 * neither waits for us nor loses what is in it when we are gone; where one is gone already, that would make a plain file,
 * which nobody removes. Dies with its terminal as long as there is nothing to lose.
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

/** The orders as they go into the pipe. */
export function addressed(orders: string): string {
  return `${Buffer.byteLength(orders)}\n${orders}`
}

/** Said in the agent's own place, behind its doors, and with the pid that it will keep. */
const announce = 'echo "pid $$" >&9; exec "$@" 9>&-'

export function announced(argv: readonly string[]): readonly string[] {
  return ['/bin/sh', '-c', announce, 'pane', ...argv]
}

export interface Orders {
  readonly command: Command
  readonly stdin: string
  readonly stdout: LogHandle
  readonly stderr: LogHandle
  /** Where the exit code goes, by rename: half of a number is a number too. */
  readonly exit: string
}

/**
 * HUP is ignored by all but the agent: a terminal that goes away must not take the last lines with it. The collectors
 * end by themselves when the last writer of their pipe does, and GNU tee goes on when the terminal cannot be written.
 * The reader of the terminal is there to see it go: -t says no once it is hung up, and a Ctrl-D is only an empty line.
 * The agent runs in the foreground, because sh lets what it starts in the background ignore SIGINT.
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

/** Some shells do not let these be set. */
const unsettable = new Set(['PPID', 'UID', 'EUID', 'BASHOPTS', 'SHELLOPTS', 'BASH_VERSINFO', 'OPTIND'])

/** What a shell cannot speak is given to the command by other means. */
function exports(env: Readonly<Record<string, string>>): string {
  return Object.entries(env)
    .filter(([name]) => /^[A-Za-z_][A-Za-z0-9_]*$/.test(name) && !unsettable.has(name))
    .map(([name, value]) => `export ${name}=${quote(value)}`)
    .join('\n')
}

function quote(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`
}
