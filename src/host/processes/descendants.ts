import { closeSync, existsSync, openSync, readdirSync, readSync } from 'node:fs'
import type { Kernel } from '../ffi.ts'
import { readEntry } from './proc.ts'

/**
 * Everybody below this process. Each is pinned by a pidfd, and was seen after that to be the child of one that is below
 * us too, so that a pid which was given to a stranger meanwhile is never signalled (G10). What forks during the walk may
 * be missed: walk again.
 */
export interface Descendants extends Disposable {
  readonly pids: readonly number[]
  signal(signal: NodeJS.Signals): void
}

/** Undefined where no pidfd can be had (an old kernel, no descriptor left) or none is needed. */
type Pin = number | undefined

/** `greeting` is sent to each at once when it is met: who is stopped then has all its children already. */
export function findDescendants(kernel: Kernel, greeting?: NodeJS.Signals): Descendants {
  const pins = new Map<number, Pin>()
  const queue = [process.pid]
  // The queue grows while it is walked.
  for (const parent of queue) {
    for (const [pid, pin] of parent === process.pid ? ownChildren() : pinnedChildren(kernel, parent, pins)) {
      pins.set(pid, pin)
      if (greeting) send(kernel, pid, pin, greeting)
      queue.push(pid)
    }
  }
  return {
    pids: queue.slice(1),
    signal: (signal) => {
      for (const [pid, pin] of pins) send(kernel, pid, pin, signal)
    },
    [Symbol.dispose]: () => {
      for (const pin of pins.values()) if (pin !== undefined) closeSync(pin)
    },
  }
}

/** Their pids stay theirs until we reap them, and during a walk we do not: no pin is needed. */
function ownChildren(): readonly (readonly [number, Pin])[] {
  return childrenOf(process.pid).map((pid) => [pid, undefined])
}

/** Pinned first, then looked for again below the parent, which must be the one that we met. */
function pinnedChildren(kernel: Kernel, parent: number, pins: ReadonlyMap<number, Pin>): readonly (readonly [number, Pin])[] {
  const candidates = childrenOf(parent).filter((pid) => !pins.has(pid))
  if (candidates.length === 0) return []
  const pinned = candidates.map((pid) => [pid, kernel.openPidfd(pid)] as const)
  const children = new Set(childrenOf(parent))
  const parentPin = pins.get(parent)
  const isSame = parentPin === undefined || kernel.signalPidfd(parentPin, 0)
  return pinned.filter(([pid, pin]) => {
    if (isSame && children.has(pid)) return true
    if (pin !== undefined) closeSync(pin)
    return false
  })
}

function send(kernel: Kernel, pid: number, pin: Pin, signal: NodeJS.Signals): void {
  if (pin !== undefined) {
    kernel.signalPidfd(pin, signal)
    return
  }
  try {
    process.kill(pid, signal)
  } catch {
    // It is gone, or not ours to signal; whoever waits for it sees which.
  }
}

/** Not every kernel was built with proc_pid_task_children(5). */
const hasChildrenFiles = existsSync('/proc/thread-self/children')

function childrenOf(pid: number): readonly number[] {
  return hasChildrenFiles ? threadsOf(pid).flatMap((thread) => readChildren(pid, thread)) : scanForChildren(pid)
}

/** Children belong to the thread that forked them; we fork, and adopt, in our main thread only. */
function threadsOf(pid: number): readonly string[] {
  if (pid === process.pid) return [String(pid)]
  try {
    return readdirSync(`/proc/${pid}/task`)
  } catch {
    return []
  }
}

let buffer = Buffer.allocUnsafe(64 * 1024)

/** 8 µs, where readFileSync takes 24 and a look at `stat` 34: with a thousand processes that counts. */
function readChildren(pid: number, thread: string): readonly number[] {
  let fd: number | undefined
  try {
    fd = openSync(`/proc/${pid}/task/${thread}/children`, 'r')
    for (let length = 0; ; ) {
      if (length === buffer.length) buffer = Buffer.concat([buffer], buffer.length * 2)
      const count = readSync(fd, buffer, length, buffer.length - length, null)
      if (count === 0) return parsePids(buffer.toString('latin1', 0, length))
      length += count
    }
  } catch {
    return []
  } finally {
    if (fd !== undefined) closeSync(fd)
  }
}

/** A child that this `/proc` cannot name is 0 in it, and a signal to 0 would hit our own group. */
function parsePids(text: string): readonly number[] {
  return text
    .split(' ')
    .map(Number)
    .filter((pid) => pid > 1)
}

function scanForChildren(parent: number): readonly number[] {
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name))
  return pids.map(Number).filter((pid) => readEntry(pid)?.ppid === parent)
}
