import { existsSync, lstatSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fixture } from '../../../test/support/fixtures.ts'
import type { Seen } from '../../../test/support/world.ts'
import type { Place } from '../place.ts'
import { environmentOf, type Program } from '../program.ts'

/** Programs from the zoo of the tests that are hard to stop and common in practice. */

interface Animal {
  readonly name: string
  readonly title: string
  command(place: Place): readonly string[]
  isReady(tree: readonly Seen[], place: Place): boolean
}

/**
 * Whether at least `count` processes have the name of the command. Some ways run other processes around the program, which do not count.
 */
const named =
  (command: string, count = 1) =>
  (tree: readonly Seen[]) =>
    tree.filter((one) => one.command === command.slice(0, commandLength)).length >= count
/** The longest name that the kernel keeps of a process: TASK_COMM_LEN of proc_pid_comm(5), without the terminating NUL. */
const commandLength = 15
const waits = (): string => fixture('waits')

const animals: readonly Animal[] = [
  {
    name: 'shell-with-children',
    title: 'a shell with two children',
    command: ({ mark }) => ['sh', '-c', `'${waits()}' ${mark} & '${waits()}' ${mark} & wait`],
    isReady: named('waits', 2),
  },
  {
    name: 'nested-shells',
    title: 'a shell in a shell in a shell',
    command: ({ mark }) => ['sh', '-c', `sh -c "sh -c '${waits()} ${mark}; true'; true"; true`],
    isReady: named('waits'),
  },
  {
    name: 'ignores-sigterm',
    title: 'ignores SIGTERM, and so does its child',
    command: () => [fixture('ignores-sigterm'), waits()],
    isReady: named('waits'),
  },
  {
    name: 'stopped',
    title: 'a stopped process',
    command: () => [fixture('stops-itself')],
    isReady: (tree) => tree.some(isStopped),
  },
  {
    name: 'setsid-daemon',
    title: 'a daemon: two forks and setsid',
    command: () => [fixture('daemonizes')],
    isReady: (tree) => tree.some(isDetached),
  },
  {
    name: 'env-i-daemon',
    title: 'a daemon with an empty environment',
    command: ({ mark }) => [fixture('daemonizes-without-environment'), waits(), mark],
    isReady: (tree) => tree.some(({ command, environ }) => command === 'waits' && environ === ''),
  },
  {
    name: 'setsid-worker',
    title: 'a worker in its own session',
    command: () => [fixture('dies-before-its-worker'), waits()],
    isReady: named('waits'),
  },
  {
    name: 'holds-stdout',
    title: 'a child that keeps standard output open',
    command: () => [fixture('holds-stdout-open-after-its-exit'), waits()],
    isReady: named('waits'),
  },
  {
    name: 'fork-hopper',
    title: 'a chain of forks, every 1.5 ms, that ignores SIGTERM',
    command: (place) => ['sh', '-c', 'exec "$0" >"$1"', fixture('hops-from-fork-to-fork'), readyFile(place)],
    isReady: (_tree, place) => existsSync(readyFile(place)) && readFileSync(readyFile(place), 'utf8').includes('ready'),
  },
  {
    name: 'hundred-children',
    title: 'a parent of 100 children',
    command: ({ mark }) => ['sh', '-c', `i=0; while [ $i -lt 100 ]; do '${waits()}' ${mark} & i=$((i+1)); done; wait`],
    isReady: named('waits', 100),
  },
]

/** tmux continues a process that stops in its pane, and the process then sleeps. */
function isStopped({ command, state }: Seen): boolean {
  return command === 'stops-itself' && (state === 'T' || state === 'S')
}

/**
 * The output of the program that forks all the time. No observation is fast enough for this program, so it prints a line when it has
 * started to fork.
 */
const readyFile = (place: Place): string => join(place.work, 'ready')

/** Whether a daemon of the zoo has left the session. The daemons close their standard streams once they have left it. */
function isDetached({ pid }: Seen): boolean {
  try {
    lstatSync(`/proc/${pid}/fd/0`)
    return false
  } catch {
    return existsSync(`/proc/${pid}/fd/100`)
  }
}

function programOf({ name, title, command, isReady }: Animal): Program {
  return {
    name,
    title,
    kind: 'zoo',
    prepare: async (place) => ({
      launch: {
        place,
        argv: command(place),
        env: environmentOf(place, process.env.PATH ?? '/usr/bin:/bin'),
        input: 'open',
        readOnly: [join(import.meta.dirname, '..', '..', '..', 'test', 'fixtures'), dirname(dirname(waits()))],
      },
      isReady: (tree) => isReady(tree, place),
      [Symbol.asyncDispose]: async () => {},
    }),
  }
}

export const zooPrograms: readonly Program[] = animals.map(programOf)
