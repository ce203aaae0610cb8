import { existsSync, lstatSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fixture } from '../../../test/support/fixtures.ts'
import type { Seen } from '../../../test/support/world.ts'
import type { Place } from '../place.ts'
import { environmentOf, type Program } from '../program.ts'

/** Of the tests' zoo, those that every supervisor meets. */

interface Animal {
  readonly name: string
  readonly title: string
  command(place: Place): readonly string[]
  stands(tree: readonly Seen[], place: Place): boolean
}

/** By name, because some ways run processes of their own around the program. */
const named =
  (command: string, count = 1) =>
  (tree: readonly Seen[]) =>
    tree.filter((one) => one.command === command.slice(0, commandLength)).length >= count
/** TASK_COMM_LEN of proc_pid_comm(5), without the closing NUL. */
const commandLength = 15
const waits = (): string => fixture('waits')

const animals: readonly Animal[] = [
  {
    name: 'shell-with-children',
    title: 'a shell with two children',
    command: ({ mark }) => ['sh', '-c', `'${waits()}' ${mark} & '${waits()}' ${mark} & wait`],
    stands: named('waits', 2),
  },
  {
    name: 'nested-shells',
    title: 'a shell in a shell in a shell',
    command: ({ mark }) => ['sh', '-c', `sh -c "sh -c '${waits()} ${mark}; true'; true"; true`],
    stands: named('waits'),
  },
  {
    name: 'ignores-sigterm',
    title: 'ignores SIGTERM, and so does its child',
    command: () => [fixture('ignores-sigterm'), waits()],
    stands: named('waits'),
  },
  {
    name: 'stopped',
    title: 'a stopped process',
    command: () => [fixture('stops-itself')],
    stands: (tree) => tree.some(isStopped),
  },
  {
    name: 'setsid-daemon',
    title: 'a daemon: two forks and setsid',
    command: () => [fixture('daemonizes')],
    stands: (tree) => tree.some(isDetached),
  },
  {
    name: 'env-i-daemon',
    title: 'a daemon with an empty environment',
    command: ({ mark }) => [fixture('daemonizes-without-environment'), waits(), mark],
    stands: (tree) => tree.some(({ command, environ }) => command === 'waits' && environ === ''),
  },
  {
    name: 'setsid-worker',
    title: 'a worker in a session of its own',
    command: () => [fixture('dies-before-its-worker'), waits()],
    stands: named('waits'),
  },
  {
    name: 'holds-stdout',
    title: 'a child that keeps standard output',
    command: () => [fixture('holds-stdout-open-after-its-exit'), waits()],
    stands: named('waits'),
  },
  {
    name: 'fork-hopper',
    title: 'a chain of forks, every 1.5 ms, deaf to SIGTERM',
    command: (place) => ['sh', '-c', 'exec "$0" >"$1"', fixture('hops-from-fork-to-fork'), word(place)],
    stands: (_tree, place) => existsSync(word(place)) && readFileSync(word(place), 'utf8').includes('ready'),
  },
  {
    name: 'hundred-children',
    title: 'a parent of 100 children',
    command: ({ mark }) => ['sh', '-c', `i=0; while [ $i -lt 100 ]; do '${waits()}' ${mark} & i=$((i+1)); done; wait`],
    stands: named('waits', 100),
  },
]

/** tmux continues whoever stops in its pane; it then waits. */
function isStopped({ command, state }: Seen): boolean {
  return command === 'stops-itself' && (state === 'T' || state === 'S')
}

/** No look is fast enough for it: it says itself when it has begun to hop. */
const word = (place: Place): string => join(place.work, 'word')

/** The daemons of the zoo close their standard streams once they have left the session. */
function isDetached({ pid }: Seen): boolean {
  try {
    lstatSync(`/proc/${pid}/fd/0`)
    return false
  } catch {
    return existsSync(`/proc/${pid}/fd/100`)
  }
}

function programOf({ name, title, command, stands }: Animal): Program {
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
      stands: (tree) => stands(tree, place),
      [Symbol.asyncDispose]: async () => {},
    }),
  }
}

export const zooPrograms: readonly Program[] = animals.map(programOf)
