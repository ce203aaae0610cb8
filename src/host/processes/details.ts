import { readFileSync } from 'node:fs'
import { basename } from 'node:path'
import { errno } from '../../core/model/errors.ts'
import type { ProcessDetails } from '../../core/ports/process.ts'
import type { ProcessTable } from './process-table.ts'

/** proc(5): times in `/proc` are in clock ticks, which are hundredths of a second on every Linux that Node runs on. */
const ticksPerSecond = 100
const pageBytes = 4_096

/** Node gives its main thread a name of its own, and that is what the kernel then calls the process. */
const nodesName = 'MainThread'

/** What people want to know of a living process; undefined when it is gone. */
export function detailsOf(processes: ProcessTable, pid: number): ProcessDetails | undefined {
  const entry = processes.find(pid)
  if (!entry) return undefined
  return {
    pid,
    ppid: entry.ppid,
    command: entry.command === nodesName ? programOf(pid, entry.command) : entry.command,
    startedAt: new Date(bootMs() + (Number(entry.startTime) / ticksPerSecond) * 1_000).toISOString(),
    rssBytes: residentBytes(pid),
  }
}

function programOf(pid: number, otherwise: string): string {
  const [program = ''] = readOrEmpty(`/proc/${pid}/cmdline`).split('\0')
  return basename(program) || otherwise
}

function bootMs(): number {
  return Number(/^btime (\d+)$/m.exec(readOrEmpty('/proc/stat'))?.[1] ?? 0) * 1_000
}

/** proc_pid_statm(5): size, resident, … */
export function residentBytes(pid: number): number {
  return Number(readOrEmpty(`/proc/${pid}/statm`).split(' ')[1] ?? 0) * pageBytes
}

function readOrEmpty(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    // Gone meanwhile, or a system without /proc.
    if (errno(error) === 'ENOENT' || errno(error) === 'ESRCH') return ''
    throw error
  }
}
