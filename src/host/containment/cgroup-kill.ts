import { join } from 'node:path'
import { errno } from '../../core/model/errors.ts'
import type { Effects } from '../../core/ports/effects.ts'
import { isPopulated, members } from './cgroup-files.ts'

/** Kills all processes of a cgroup with one write to `cgroup.kill` (cgroups(7)). */
export function killCgroup(directory: string, effects: Effects): void {
  try {
    effects.write(join(directory, 'cgroup.kill'), '1')
  } catch (error) {
    if (isPopulated(directory) === undefined) return
    // A root agent can make its cgroup threaded, and the kernel does not support cgroup.kill there. Then each process gets a signal.
    // Processes that are forked meanwhile get theirs when the kill step is repeated.
    if (errno(error) !== 'EOPNOTSUPP' && errno(error) !== 'ENOTSUP') throw error
    for (const pid of members(directory)) trySignal(effects, pid, 'SIGKILL')
  }
}

/** Sends a signal; a process that is gone already counts as signalled. */
export function trySignal(effects: Effects, pid: number, signal: NodeJS.Signals): void {
  try {
    effects.signal(pid, signal)
  } catch (error) {
    if (errno(error) !== 'ESRCH') throw error
  }
}
