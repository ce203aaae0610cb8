import { readFileSync } from 'node:fs'
import type { Mark } from '../../core/model/identity.ts'

/**
 * The rlimit tag: a number in RLIMIT_RSS that identifies a tree. That limit has had no effect since Linux 2.4.30 (getrlimit(2)). Every
 * child inherits it, and exec, setsid, `env -i` and a change of the cgroup keep it. So a daemon that cleared its environment, detached
 * from its parents and left its cgroup is still found. A process loses the tag only when it changes this limit.
 */

/** The tag is at least 2^52 KiB, more than any memory, and below 2^63 bytes, so that no program reads a negative number. */
const leastKiB = 2 ** 52

/** The tag in KiB, derived from the tree's name alone (G1). It has 48 bits, so two trees do not get the same tag by accident. */
export function rlimitTagOf({ installation, resourceId }: Mark): number {
  const name = `${installation}/${resourceId}`
  return leastKiB + (hash(name, 0x811c9dc5) >>> 8) * 2 ** 24 + (hash(name, 0x5bd1e995) >>> 8)
}

/**
 * FNV-1a, with a final mixing step for the upper bits. Four million random names gave four million different tags. Loading `node:crypto`
 * instead would add 0.7 ms to each `ebb exec`.
 */
function hash(text: string, from: number): number {
  let sum = from
  for (let at = 0; at < text.length; at++) sum = Math.imul(sum ^ text.charCodeAt(at), 0x01000193)
  sum = Math.imul(sum ^ (sum >>> 15), 0x2c1b3c6d)
  return (sum ^ (sum >>> 13)) >>> 0
}

/**
 * The line by which `sh` sets the tag before it execs the command; a refused `ulimit` is ignored. A limit that is set already is not
 * overwritten: it is the tag of an outer Ebb, or a limit of the user.
 */
export function setRlimitTag(mark: Mark): string {
  isFree ??= process.platform === 'linux' && rlimitTagIn(readFileSync('/proc/self/limits', 'latin1')) === 'unlimited'
  return isFree ? `{ command ulimit -m ${rlimitTagOf(mark)}; } 2>/dev/null; ` : ''
}

let isFree: boolean | undefined

const needle = 'Max resident set'

/** The hard limit of RLIMIT_RSS in `/proc/PID/limits`, in bytes (proc_pid_limits(5)). Ebb stores the rlimit tag there. */
export function rlimitTagIn(limits: string): string | undefined {
  const at = limits.indexOf(needle)
  return at < 0
    ? undefined
    : limits
        .slice(at + needle.length)
        .trim()
        .split(/\s+/, 2)[1]
}

/** The tag in bytes, as `/proc` shows it. */
export function rlimitTagText(mark: Mark): string {
  return String(BigInt(rlimitTagOf(mark)) * 1_024n)
}
