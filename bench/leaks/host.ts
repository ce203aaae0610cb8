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
 * Runs a measurement in a process, namespaces and a cgroup of its own, and ends whatever is left of it: a
 * benchmark of leaks must not leak. Where the machine has no such things, the mark alone has to do.
 */
export async function runApart(order: Omit<Order, 'base' | 'mark'>): Promise<unknown> {
  const base = mkdtempSync(join(tmpdir(), `${folderPrefix}${ownName()}-`))
  const mark = `leak${randomBytes(6).toString('hex')}`
  const apart = { base, mark, cgroup: makeCgroup() }
  underWay.add(apart)
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

const underWay = new Set<Apart>()
const folderPrefix = 'leaks-'
const cgroupPrefix = 'bench-leaks-'

async function endApart(apart: Apart): Promise<void> {
  await endEverything(apart.mark, apart.cgroup)
  rmSync(apart.base, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 })
  underWay.delete(apart)
}

/** For one who is interrupted. */
export async function endAllApart(): Promise<void> {
  await Promise.all([...underWay].map(endApart))
}

/** What a benchmark left that was killed itself, by the process in the names; its processes are all in its cgroups. */
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

/** A pid comes again, and means something else in another namespace: what is not known to be dead is left alone. */
function ownName(): string {
  return [process.pid, startOf(process.pid), ownNamespace()].join('-')
}

/** Short, as all names here: agents make sockets below them, and the path of a socket has 107 bytes at most (unix(7)). */
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

/** Only the loopback, so that no agent talks to anybody but the model; what is mounted inside goes with it. */
const door =
  '[ -z "$0" ] || echo $$ > "$0/cgroup.procs" || exit 1; if [ "$1" = apart ]; then ip link set lo up || exit 1; fi; shift; exec "$@"'

/** Where a network namespace can be made; elsewhere the agents share the machine's, and only their settings keep them to the model. */
export function hasOwnNetwork(): boolean {
  ownNetwork ??= spawnSync('unshare', ['--net', '--mount', 'ip', 'link', 'set', 'lo', 'up'], { stdio: 'ignore' }).status === 0
  return ownNetwork
}
let ownNetwork: boolean | undefined

async function answerOf(order: Order, cgroup: string | undefined): Promise<unknown> {
  const isApart = hasOwnNetwork()
  const words = ['sh', '-c', door, cgroup ?? '', isApart ? 'apart' : 'here']
  const [program = '', ...before] = isApart ? ['unshare', '--net', '--mount', ...words] : words
  const child = spawn(program, [...before, process.execPath, '--disable-warning=ExperimentalWarning', cellProgram], {
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  const timer = setTimeout(() => child.kill('SIGKILL'), deadlineMs)
  child.stdin.end(JSON.stringify(order))
  const exited = new Promise<number | null>((resolve) => child.once('exit', resolve))
  // Not until they close: what a way has left may hold them. The answer is there when the process has ended.
  const said = Promise.all([text(child.stdout), text(child.stderr)])
  const code = await exited
  clearTimeout(timer)
  await endEverything(order.mark, cgroup)
  const [answer, complaint] = await said
  if (code !== 0) throw new Error(`${order.program} under ${order.way} could not be measured: ${reasonIn(complaint)}`)
  return JSON.parse(answer)
}

/** Of what Node prints for an error that nobody caught. */
function reasonIn(complaint: string): string {
  return /^\w*Error: (.*)$/m.exec(complaint)?.[1] ?? (complaint.trim().slice(-300) || 'it took too long')
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
    // It is gone already.
  }
  await waitUntil(() => isRemoved(cgroup), 10_000, `the cgroup ${cgroup} is removed`)
}

/** From below; a directory with a process that is still dying refuses, and is asked again. */
function isRemoved(directory: string): boolean {
  for (const name of folders(directory)) isRemoved(join(directory, name))
  try {
    rmdirSync(directory)
    return true
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'ENOENT'
  }
}
