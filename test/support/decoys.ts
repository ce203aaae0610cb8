import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdirSync, rmdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fixture } from './fixtures.ts'
import { type RunningEbb, startEbb, temporaryHome } from './home.ts'
import { markVariable } from './mark.ts'
import { cgroupAvailable } from './real.ts'
import { ownCgroup2, type Seen, seen, survivors, waitUntil } from './world.ts'

/** Processes and cgroups that look like Ebb's and are not. They must be unchanged after every test (G10). */

export interface Decoy {
  readonly what: string
  readonly process: Seen
  remove(): Promise<void>
}

/** Starts a process in the session and process group of the test, and so of the `ebb` that it starts, with any command line. */
export async function decoyProcess(what: string, words: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<Decoy> {
  const child = spawn(fixture('waits'), words, {
    stdio: 'ignore',
    env: { ...process.env, [markVariable]: `${process.env[markVariable]}decoy`, ...env },
  })
  return { what, process: await started(child), remove: () => ended(child) }
}

async function started(child: ChildProcess): Promise<Seen> {
  const pid = child.pid ?? 0
  await waitUntil(() => seen(pid)?.command === 'waits', 5_000, 'the decoy starts')
  return seen(pid) as Seen
}

async function ended(child: ChildProcess): Promise<void> {
  const exit = new Promise((resolve) => child.once('exit', resolve))
  if (child.exitCode !== null || child.signalCode !== null) return
  child.kill('SIGKILL')
  await exit
}

/** The decoys that stay for a whole test file: an environment tag and a cgroup of another installation, and its running command. */
export async function placeNeighbours(): Promise<readonly Decoy[]> {
  const installation = randomBytes(6).toString('hex')
  const environmentTag = `${installation}/aaaaaaaaaaaa-1-2-3/neighbour.1`
  return [
    await decoyProcess('a process with the environment tag of another installation', [], { EBB_SCOPE: environmentTag }),
    await decoyProcess('a process with a malformed environment tag', [], { EBB_SCOPE: '///:a/b/c/d:' }),
    ...(cgroupAvailable() ? [await neighbourCgroup(installation)] : []),
    await neighbourExec(),
  ]
}

async function neighbourCgroup(installation: string): Promise<Decoy> {
  const top = join(ownCgroup2() ?? '', `ebb-${installation}`)
  const directory = join(top, 'aaaaaaaaaaaa-1-2-3', 'end', 'neighbour.1')
  mkdirSync(directory, { recursive: true })
  const decoy = await decoyProcess("a process in a neighbour's cgroup", [])
  writeFileSync(join(directory, 'cgroup.procs'), String(decoy.process.pid))
  const remove = async (): Promise<void> => {
    await decoy.remove()
    for (let path = directory; path.startsWith(top); path = dirname(path)) rmdirSync(path)
  }
  return { ...decoy, process: seen(decoy.process.pid) as Seen, remove }
}

async function neighbourExec(): Promise<Decoy> {
  const mark = `${process.env[markVariable]}neighbour-`
  const run: RunningEbb = startEbb(['exec', '--', fixture('waits'), mark], {
    home: temporaryHome(),
    env: { [markVariable]: mark },
    deadlineMs: 300_000,
  })
  const find = (): Seen | undefined => survivors(mark).find(({ command }) => command === 'waits')
  const failed = run.ended.then(({ stderr }) => Promise.reject(new Error(`The neighbour's ebb exec ended: ${stderr}`)))
  await Promise.race([waitUntil(() => find() !== undefined, 10_000, 'the neighbour runs'), failed])
  failed.catch(() => {}) // Once the decoy runs, only `remove` ends it, so a later rejection is ignored.
  const remove = async (): Promise<void> => {
    run.signal('SIGTERM')
    await run.ended
  }
  return { what: "another home's running command", process: find() as Seen, remove }
}

/** Decoys that ended, are stopped, or are in another cgroup, or whose pid belongs to another process now. */
export function disturbed(decoys: readonly Decoy[]): readonly string[] {
  return decoys
    .filter(({ process: { pid, startTime, cgroups } }) => {
      const now = seen(pid)
      return now?.startTime !== startTime || now.state === 'T' || now.cgroups !== cgroups
    })
    .map(({ what }) => what)
}

/** Runs `work` among decoys. Fails when one of them was disturbed. */
export async function amongNeighbours(work: () => Promise<void>): Promise<void> {
  const neighbours = await placeNeighbours()
  try {
    await work()
    const gone = disturbed(neighbours)
    if (gone.length > 0) throw new Error(`Foreign processes were disturbed: ${gone.join('; ')}`)
  } finally {
    for (const decoy of neighbours) await decoy.remove()
  }
}
