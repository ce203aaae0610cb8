import { readFileSync } from 'node:fs'
import { constants } from 'node:os'

/**
 * True when the main process of a container ignores this signal. It is the init of its pid namespace, and the kernel drops a signal for
 * which an init has no handler (pid_namespaces(7)). Sending it would cost the daemon 15 ms, and the wait would be in vain.
 */
export function ignoresSignal(pid: number, containerId: string, signal: NodeJS.Signals): boolean {
  try {
    // The pid must be a process of this container on this host, because the daemon may run in another pid namespace.
    if (!isOfContainer(pid, containerId)) return false
    const status = readFileSync(`/proc/${pid}/status`, 'latin1')
    const [caught, blocked] = ['SigCgt', 'SigBlk'].map((field) => maskOf(status, field))
    if (caught === undefined || blocked === undefined) return false
    return (((caught | blocked) >> BigInt(constants.signals[signal] - 1)) & 1n) === 0n
  } catch {
    return false
  }
}

/** The OCI runtime names the cgroups of a container after its id. */
export function isOfContainer(pid: number, containerId: string): boolean {
  try {
    return readFileSync(`/proc/${pid}/cgroup`, 'latin1').includes(containerId)
  } catch {
    return false
  }
}

/** Reads one signal mask from the text of /proc/PID/status (proc_pid_status(5)). */
function maskOf(status: string, field: string): bigint | undefined {
  const digits = new RegExp(`^${field}:\\s*([0-9a-f]+)$`, 'm').exec(status)?.[1]
  return digits === undefined ? undefined : BigInt(`0x${digits}`)
}
