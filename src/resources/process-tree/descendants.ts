import { closeSync, existsSync, readdirSync, readFileSync } from 'node:fs'
import type { Kernel } from './ffi.ts'
import { readEntry } from './proc.ts'

/**
 * Everybody below this process, each pinned by a pidfd and seen to be the child of one that is pinned too: a pid that
 * was given to a stranger meanwhile is never in it (G10). What forks during the walk may be missed; walk again.
 */
export interface Descendants extends Disposable {
  readonly pids: readonly number[]
  signal(signal: NodeJS.Signals, isWanted?: (pid: number) => boolean): void
}

export function findDescendants(kernel: Kernel): Descendants {
  const pins = new Map<number, number | undefined>()
  const childrenOf = existsSync(`/proc/self/task/${process.pid}/children`) ? childrenByFile : childrenByScan()
  const queue = [process.pid]
  for (let parent = queue.shift(); parent !== undefined; parent = queue.shift()) {
    for (const pid of childrenOf(parent)) {
      if (pins.has(pid)) continue
      const pin = kernel.openPidfd(pid)
      if (isChild(kernel, pid, parent, pins)) {
        pins.set(pid, pin)
        queue.push(pid)
      } else if (pin !== undefined) closeSync(pin)
    }
  }
  return {
    pids: [...pins.keys()],
    signal: (signal, isWanted = () => true) => {
      for (const [pid, pin] of pins) if (isWanted(pid)) send(kernel, pid, pin, signal)
    },
    [Symbol.dispose]: () => {
      for (const pin of pins.values()) if (pin !== undefined) closeSync(pin)
    },
  }
}

/** Asked after the pin was set. Our own children need no question: their pids stay theirs until we reap them. */
function isChild(kernel: Kernel, pid: number, parent: number, pins: ReadonlyMap<number, number | undefined>): boolean {
  if (parent === process.pid) return true
  if (readEntry(pid)?.ppid !== parent) return false
  const pin = pins.get(parent)
  return pin === undefined || kernel.signalPidfd(pin, 0)
}

/** Without a pidfd (an old kernel, or no descriptor left) the pid itself must do; it was looked at just before. */
function send(kernel: Kernel, pid: number, pin: number | undefined, signal: NodeJS.Signals): void {
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

/** proc_pid_task_children(5); children belong to the thread that forked them. 20 µs, where a scan of all of `/proc` takes milliseconds. */
function childrenByFile(pid: number): readonly number[] {
  try {
    return readdirSync(`/proc/${pid}/task`).flatMap((thread) => childrenOfThread(pid, thread))
  } catch {
    return []
  }
}

function childrenOfThread(pid: number, thread: string): readonly number[] {
  try {
    return readFileSync(`/proc/${pid}/task/${thread}/children`, 'latin1').split(' ').filter(Boolean).map(Number)
  } catch {
    return []
  }
}

/** For kernels that were built without that file. */
function childrenByScan(): (pid: number) => readonly number[] {
  const byParent = new Map<number, number[]>()
  for (const name of readdirSync('/proc')) {
    const entry = /^\d+$/.test(name) ? readEntry(Number(name)) : undefined
    if (entry) byParent.set(entry.ppid, [...(byParent.get(entry.ppid) ?? []), entry.pid])
  }
  return (pid) => byParent.get(pid) ?? []
}
