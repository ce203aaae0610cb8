import { fixture } from './fixtures.ts'
import { ebbProgram } from './home.ts'
import { hierarchies, type Seen } from './world.ts'

/** The zoo: what each fixture does, which containments claim to hold it, and what its end must look like. */

export type ContainmentName = 'cgroup' | 'subreaper' | 'scan'

/**
 * The fixture exits by itself, the supervisor gets SIGTERM, the time limit passes, or the supervisor is killed and its sentinel cleans up.
 */
export type Ending = 'its own exit' | 'SIGTERM' | 'timeout' | 'SIGKILL'

export interface Animal {
  /** The start of the test title "… is released". */
  readonly what: string
  command(containment: ContainmentName): readonly string[]
  readonly heldBy: readonly ContainmentName[]
  readonly endings: readonly Ending[]
  /** The `--grace` of the outer supervisor, for a fixture whose orderly end takes more than the usual 300 ms. */
  readonly grace?: string
  /**
   * Whether the process tree of the fixture is complete, so that its end can begin. Without this check, a fixture that failed to start
   * would pass.
   */
  stands(tree: readonly Seen[]): boolean
  readonly codes?: Partial<Record<Ending, number>>
  /** The ladder's steps that the report must show. Default: any. */
  readonly steps?: Partial<Record<Ending, readonly string[]>>
  /** A process left the containment, so the strength of the proof can only be `scan`. */
  readonly strays?: true
}

const everywhere = ['cgroup', 'subreaper', 'scan'] as const
const always = ['its own exit', 'SIGTERM', 'SIGKILL'] as const
const whenStopped = ['SIGTERM', 'SIGKILL'] as const

const waits = (): string => fixture('waits')
const unified = (): string => hierarchies().find(({ version }) => version === 2)?.mountPoint ?? ''
const atLeast = (count: number) => (tree: readonly Seen[]) => tree.length >= count
const named =
  (command: string, count = 1) =>
  (tree: readonly Seen[]) =>
    tree.filter((process) => process.command === command).length >= count
const isOutside = (process: Seen): boolean => !/^0::.*\/ebb-/m.test(process.cgroups)

function ebbInsideEbb(what: string, home: 'same home' | 'own home'): Animal {
  return {
    what,
    command: (containment) => [
      fixture('runs-ebb-inside-ebb'),
      ebbProgram,
      home,
      ...['--containment', containment, '--grace', '100ms', '--'],
      fixture('daemonizes'),
    ],
    heldBy: everywhere,
    endings: always,
    grace: '5s',
    stands: named('daemonizes', 2),
  }
}

export const zoo: readonly Animal[] = [
  {
    what: 'a command that ignores SIGTERM',
    command: () => [fixture('ignores-sigterm'), waits()],
    heldBy: everywhere,
    endings: ['SIGTERM', 'timeout', 'SIGKILL'],
    // After the first SIGTERM, `ebb exec` waits half of the grace for the command to end. On a busy machine the ladder must still have time
    // for its first step.
    grace: '2s',
    stands: atLeast(2),
    codes: { SIGTERM: 137 },
    steps: { SIGTERM: ['terminate', 'kill'], timeout: ['terminate', 'kill'] },
  },
  {
    what: 'a daemon that forked twice and called setsid',
    command: () => [fixture('daemonizes')],
    heldBy: everywhere,
    endings: always,
    stands: (tree) => tree.some(({ ppid }) => !tree.some(({ pid }) => pid === ppid) && ppid !== 0) && tree.length >= 2,
    // The daemon ends at SIGTERM. The long grace is for a busy machine that is slow to show its end.
    grace: '10s',
    steps: { 'its own exit': ['terminate'] },
  },
  {
    what: 'a daemon that becomes another program all the time',
    command: () => [fixture('execs-again-and-again')],
    heldBy: everywhere,
    endings: always,
    stands: (tree) => tree.some(({ environ }) => environ.includes('EXECS_SINCE=')),
  },
  {
    what: 'a daemon that cleared its environment',
    command: () => [fixture('daemonizes-without-environment'), waits()],
    heldBy: everywhere,
    endings: always,
    stands: (tree) => tree.some(({ environ }) => environ === ''),
  },
  {
    what: 'a daemon that cleared its environment and left its cgroup',
    command: () => [fixture('daemonizes-without-environment'), waits(), unified()],
    heldBy: ['cgroup'],
    endings: always,
    stands: (tree) => tree.some((process) => process.environ === '' && isOutside(process)),
    strays: true,
  },
  {
    what: 'a chain of forks in which every parent exits at once',
    command: () => [fixture('hops-from-fork-to-fork')],
    heldBy: ['cgroup', 'subreaper'],
    endings: [...always, 'timeout'],
    // The fixture prints "ready" after its first fork. No process list is fast enough to show the chain of forks.
    stands: atLeast(1),
    codes: { SIGTERM: 137 },
  },
  {
    what: 'a parent of 1,000 children',
    command: () => [fixture('has-a-thousand-children')],
    heldBy: everywhere,
    endings: always,
    stands: atLeast(1_001),
  },
  {
    what: 'a command that stopped itself',
    command: () => [fixture('stops-itself')],
    heldBy: everywhere,
    endings: whenStopped,
    stands: (tree) => tree.some(({ state }) => state === 'T'),
    // SIGCONT after SIGTERM ends the stopped process without a kill. The long grace is for a busy machine that is slow to show its end.
    grace: '10s',
    steps: { SIGTERM: ['terminate'] },
  },
  {
    what: 'a command whose main thread has ended',
    command: () => [fixture('ends-its-main-thread')],
    heldBy: everywhere,
    endings: whenStopped,
    // The process holds the leash (a named pipe) open, though no process list shows the process as alive.
    stands: (tree) => !tree.some(({ command }) => command.startsWith('ends-its-main')),
    codes: { SIGTERM: 137 },
  },
  {
    what: 'a child that holds standard output after the exit of its parent',
    command: () => [fixture('holds-stdout-open-after-its-exit'), waits()],
    heldBy: everywhere,
    endings: always,
    stands: named('waits'),
    codes: { 'its own exit': 5 },
  },
  {
    what: 'a parent that never reaps its children',
    command: () => [fixture('never-reaps-its-children')],
    heldBy: everywhere,
    endings: always,
    stands: atLeast(1),
  },
  {
    what: 'a command that exits during the ladder',
    command: () => [fixture('exits-300ms-after-its-second-sigterm')],
    // The first SIGTERM comes from the test and uses half of the grace. The second is the ladder's.
    grace: '3s',
    heldBy: everywhere,
    endings: whenStopped,
    stands: atLeast(1),
    codes: { SIGTERM: 0 },
    steps: { SIGTERM: ['terminate'] },
  },
  {
    what: 'a command that forks while it is being killed',
    command: () => [fixture('forks-while-being-killed')],
    heldBy: everywhere,
    endings: whenStopped,
    stands: atLeast(3),
    codes: { SIGTERM: 137 },
  },
  {
    what: 'a worker whose wrapper died first',
    command: () => [fixture('dies-before-its-worker'), waits()],
    heldBy: everywhere,
    endings: always,
    stands: named('waits'),
    codes: { 'its own exit': 137 },
  },
  ebbInsideEbb('a daemon of an ebb inside an ebb', 'same home'),
  ebbInsideEbb('a daemon of an ebb inside an ebb, with a home of its own,', 'own home'),
  {
    what: 'a command in state D, waiting for its vforked child',
    command: () => [fixture('waits-for-its-vforked-child')],
    heldBy: everywhere,
    endings: always,
    stands: (tree) => tree.some(({ state }) => state === 'D'),
  },
  {
    what: 'a child that moved itself out of the cgroup',
    command: () => [fixture('leaves-its-cgroup'), waits(), unified()],
    heldBy: ['cgroup'],
    endings: always,
    stands: (tree) => tree.some((process) => process.command === 'waits' && isOutside(process)),
    strays: true,
  },
  {
    what: 'a whole tree that moved itself out of the cgroup',
    command: () => [fixture('leaves-its-cgroup'), waits(), unified(), 'all'],
    heldBy: ['cgroup'],
    endings: always,
    stands: (tree) => tree.length >= 2 && tree.every(isOutside),
    strays: true,
  },
  {
    what: 'a tree that made cgroups of its own',
    command: () => [fixture('makes-cgroups-of-its-own'), waits(), unified()],
    heldBy: ['cgroup'],
    endings: always,
    stands: (tree) => tree.some(({ cgroups }) => cgroups.includes('/one/two/three')),
  },
  {
    what: 'a child in a frozen cgroup',
    command: () => [fixture('freezes-a-cgroup-of-its-own'), waits(), unified()],
    heldBy: ['cgroup'],
    endings: always,
    stands: (tree) => tree.some(({ cgroups }) => cgroups.includes('/cold')),
  },
  {
    what: 'a tree that made its cgroup threaded',
    command: () => [fixture('makes-its-cgroup-threaded'), waits(), unified()],
    heldBy: ['cgroup'],
    endings: always,
    stands: named('waits'),
    codes: { SIGTERM: 137 },
  },
]
