import { spawn, spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdirSync, mkdtempSync, readlinkSync, rmdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { folders, ownCgroup2, seen, waitUntil } from '../../test/support/world.ts'
import { endAll } from './checker.ts'
import type { Order } from './order.ts'

/**
 * Runs a measurement in its own process, namespaces and cgroup, and ends everything that is left of it, because a benchmark of leaks must not
 * leak. Where the machine has no namespaces or cgroups, only the mark identifies the leftovers.
 */
export async function runApart(order: Omit<Order, 'base' | 'mark'>): Promise<unknown> {
  const base = mkdtempSync(join(tmpdir(), `${folderPrefix}${ownName()}-`))
  const mark = `leak${randomBytes(6).toString('hex')}`
  const apart = { base, mark, cgroup: makeCgroup() }
  running.add(apart)
  try {
    return await answerOf({ ...order, base, mark }, apart.cgroup)
  } finally {
    await endApart(apart)
  }
}

interface Apart {
  readonly base: string
  readonly mark: string
  readonly cgroup: string | undefined
}

const running = new Set<Apart>()
const folderPrefix = 'leaks-'
const cgroupPrefix = 'bench-leaks-'

async function endApart(apart: Apart): Promise<void> {
  await endEverything(apart.mark, apart.cgroup)
  rmSync(apart.base, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 })
  running.delete(apart)
}

/** Ends all measurements when the benchmark is interrupted. */
export async function endAllApart(): Promise<void> {
  await Promise.all([...running].map(endApart))
}

/**
 * Removes the cgroups and the temp folders that a killed benchmark left. Their names contain the pid of that benchmark, and all of its
 * processes are in its cgroups.
 */
export async function endAbandoned(): Promise<void> {
  const own = ownCgroup2()
  for (const name of own === undefined ? [] : folders(own).filter(isAbandoned(cgroupPrefix))) await endCgroup(join(own ?? '', name))
  for (const name of folders(tmpdir()).filter(isAbandoned(folderPrefix))) rmSync(join(tmpdir(), name), { recursive: true, force: true })
}

function isAbandoned(prefix: string): (name: string) => boolean {
  return (name) => {
    const [, pid, started, namespace] = (name.startsWith(prefix) && /^(\d+)-(\w+)-(\w+)-/.exec(name.slice(prefix.length))) || []
    return pid !== undefined && namespace === ownNamespace() && started !== startOf(Number(pid))
  }
}

/**
 * The name of this benchmark's cgroups and folders: pid, start time and pid namespace. A pid alone is reused, and means another process in
 * another namespace. A benchmark that is not known to be dead is left alone.
 */
function ownName(): string {
  return [process.pid, startOf(process.pid), ownNamespace()].join('-')
}

/** Names are short, because agents create sockets below them, and the path of a socket has at most 107 bytes (unix(7)). */
const short = (digits: string): string => Number(digits).toString(36)

function startOf(pid: number): string | undefined {
  const found = seen(pid)
  return found && short(found.startTime)
}

function ownNamespace(): string {
  return short(readlinkSync('/proc/self/ns/pid').replace(/\D/g, ''))
}

const deadlineMs = 240_000
const cellProgram = join(import.meta.dirname, 'cell.ts')

/**
 * Enters the cgroup and sets up loopback. The network namespace has loopback only, so that an agent can reach only the model. Mounts inside of the
 * mount namespace end with it.
 */
const entryScript =
  '[ -z "$0" ] || echo $$ > "$0/cgroup.procs" || exit 1; if [ "$1" = apart ]; then ip link set lo up || exit 1; fi; shift; exec "$@"'

/** Whether a network namespace can be created. Otherwise the agents use the network of the machine, and only their settings limit them to the model. */
export function hasOwnNetwork(): boolean {
  ownNetwork ??= spawnSync('unshare', ['--net', '--mount', 'ip', 'link', 'set', 'lo', 'up'], { stdio: 'ignore' }).status === 0
  return ownNetwork
}
let ownNetwork: boolean | undefined

async function answerOf(order: Order, cgroup: string | undefined): Promise<unknown> {
  const isApart = hasOwnNetwork()
  const words = ['sh', '-c', entryScript, cgroup ?? '', isApart ? 'apart' : 'here']
  const [program = '', ...before] = isApart ? ['unshare', '--net', '--mount', ...words] : words
  const child = spawn(program, [...before, process.execPath, '--disable-warning=ExperimentalWarning', cellProgram], {
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  const timer = setTimeout(() => child.kill('SIGKILL'), deadlineMs)
  child.stdin.end(JSON.stringify(order))
  const exited = new Promise<number | null>((resolve) => child.once('exit', resolve))
  // The output is awaited only later: leftover processes may keep the pipes open. The answer is complete when the child has exited.
  const output = Promise.all([text(child.stdout), text(child.stderr)])
  const code = await exited
  clearTimeout(timer)
  await endEverything(order.mark, cgroup)
  const [answer, errors] = await output
  if (code !== 0) throw new Error(`${order.program} under ${order.way} could not be measured: ${reasonIn(errors)}`)
  return JSON.parse(answer)
}

/** The message in the output of Node for an uncaught error. */
function reasonIn(errors: string): string {
  return /^\w*Error: (.*)$/m.exec(errors)?.[1] ?? (errors.trim().slice(-300) || 'it took too long')
}

function makeCgroup(): string | undefined {
  const own = ownCgroup2()
  if (own === undefined) return undefined
  const directory = join(own, `${cgroupPrefix}${ownName()}-${randomBytes(3).toString('hex')}`)
  try {
    mkdirSync(directory)
    return directory
  } catch {
    return undefined
  }
}

async function endEverything(mark: string, cgroup: string | undefined): Promise<void> {
  if (cgroup !== undefined) await endCgroup(cgroup)
  await waitUntil(() => endAll(mark) === 0, 40_000, `nothing with the mark ${mark} is left`)
}

async function endCgroup(cgroup: string): Promise<void> {
  try {
    writeFileSync(join(cgroup, 'cgroup.kill'), '1')
  } catch {
    // The cgroup does not exist any more.
  }
  await waitUntil(() => isRemoved(cgroup), 10_000, `the cgroup ${cgroup} is removed`)
}

/** Removes the cgroups bottom-up. rmdir fails while a process in it is exiting, and the caller retries. */
function isRemoved(directory: string): boolean {
  for (const name of folders(directory)) isRemoved(join(directory, name))
  try {
    rmdirSync(directory)
    return true
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'ENOENT'
  }
}
