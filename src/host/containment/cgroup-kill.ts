import { join } from 'node:path'
import { errno } from '../../core/model/errors.ts'
import type { Effects } from '../../core/ports/effects.ts'
import { isPopulated, members } from './cgroup-files.ts'

/** All of a cgroup at once, cgroups(7). */
export function killCgroup(directory: string, effects: Effects): void {
  try {
    effects.write(join(directory, 'cgroup.kill'), '1')
  } catch (error) {
    if (isPopulated(directory) === undefined) return
    // A root agent can make its cgroup threaded, and then cgroup.kill is not supported: one by one, again and again.
    if (errno(error) !== 'EOPNOTSUPP' && errno(error) !== 'ENOTSUP') throw error
    for (const pid of members(directory)) trySignal(effects, pid, 'SIGKILL')
  }
}

/** One that is gone already has had what it was to get. */
export function trySignal(effects: Effects, pid: number, signal: NodeJS.Signals): void {
  try {
    effects.signal(pid, signal)
  } catch (error) {
    if (errno(error) !== 'ESRCH') throw error
  }
}
