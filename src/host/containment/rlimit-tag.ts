import { readFileSync } from 'node:fs'
import type { Mark } from '../../core/model/identity.ts'

/**
 * The mark that no environment holds: a number in a limit that limits nothing. RLIMIT_RSS has had no effect since Linux 2.4.30
 * (getrlimit(2)), every child inherits it, and exec, setsid, `env -i` and another cgroup leave it as it is. So a daemon that
 * cleared its environment and left its family, and its cgroup too, is still found. Only who changes that very limit loses it.
 */

/** 2^52 KiB and more, below 2^63 bytes: beyond all memory, and no negative number for anybody. */
const leastKiB = 2 ** 52

/** Of a tree, by its name alone (G1); 48 bits do not meet by accident. */
export function rlimitTagOf({ installation, resourceId }: Mark): number {
  const name = `${installation}/${resourceId}`
  return leastKiB + (hash(name, 0x811c9dc5) >>> 8) * 2 ** 24 + (hash(name, 0x5bd1e995) >>> 8)
}

/** FNV-1a, with a last stir for the upper bits: four million random names had four million brands. `node:crypto` would cost each `ebb exec` 0.7 ms. */
function hash(text: string, from: number): number {
  let sum = from
  for (let at = 0; at < text.length; at++) sum = Math.imul(sum ^ text.charCodeAt(at), 0x01000193)
  sum = Math.imul(sum ^ (sum >>> 15), 0x2c1b3c6d)
  return (sum ^ (sum >>> 13)) >>> 0
}

/**
 * What `sh` does before the command; a limit that may not be set is left as it is. Inside an agent of another Ebb the brand is
 * that one's, and somebody's real limit is theirs: neither is overwritten.
 */
export function setRlimitTag(mark: Mark): string {
  isFree ??= process.platform === 'linux' && rlimitTagIn(readFileSync('/proc/self/limits', 'latin1')) === 'unlimited'
  return isFree ? `{ command ulimit -m ${rlimitTagOf(mark)}; } 2>/dev/null; ` : ''
}

let isFree: boolean | undefined

const needle = 'Max resident set'

/** The hard limit in `/proc/PID/limits`, in bytes, as it stands there (proc_pid_limits(5)). */
export function rlimitTagIn(limits: string): string | undefined {
  const at = limits.indexOf(needle)
  return at < 0
    ? undefined
    : limits
        .slice(at + needle.length)
        .trim()
        .split(/\s+/, 2)[1]
}

/** As `/proc` tells it. */
export function rlimitTagText(mark: Mark): string {
  return String(BigInt(rlimitTagOf(mark)) * 1_024n)
}
