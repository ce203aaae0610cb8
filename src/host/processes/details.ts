import { readFileSync } from 'node:fs'
import { basename } from 'node:path'
import { errno } from '../../core/model/errors.ts'
import type { ProcessDetails } from '../../core/ports/process.ts'
import type { ProcessTable } from './process-table.ts'

/** proc(5): `/proc` counts time in clock ticks. A tick is a hundredth of a second on every Linux that Node runs on. */
const ticksPerSecond = 100
const pageBytes = 4_096

/** The name that Node gives its main thread. The kernel shows it as the name of the process. */
const nodeThreadName = 'MainThread'

/** Details of a living process for a list of processes; undefined when it is gone. */
export function detailsOf(processes: ProcessTable, pid: number): ProcessDetails | undefined {
  const entry = processes.find(pid)
  if (!entry) return undefined
  return {
    pid,
    ppid: entry.ppid,
    command: entry.command === nodeThreadName ? programOf(pid, entry.command) : entry.command,
    startedAt: new Date(bootMs() + (Number(entry.startTime) / ticksPerSecond) * 1_000).toISOString(),
    rssBytes: residentBytes(pid),
  }
}

function programOf(pid: number, fallback: string): string {
  const [program = ''] = readOrEmpty(`/proc/${pid}/cmdline`).split('\0')
  return basename(program) || fallback
}

function bootMs(): number {
  return Number(/^btime (\d+)$/m.exec(readOrEmpty('/proc/stat'))?.[1] ?? 0) * 1_000
}

/** The resident memory of a process: the second field of proc_pid_statm(5), in pages. */
export function residentBytes(pid: number): number {
  return Number(readOrEmpty(`/proc/${pid}/statm`).split(' ')[1] ?? 0) * pageBytes
}

function readOrEmpty(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    // The process is gone, or the system has no /proc.
    if (errno(error) === 'ENOENT' || errno(error) === 'ESRCH') return ''
    throw error
  }
}
