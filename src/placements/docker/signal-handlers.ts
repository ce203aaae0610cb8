import { readFileSync } from 'node:fs'
import { constants } from 'node:os'

/**
 * The main process of a container is the first of its pid namespace, and a signal for which such a one has no handler never
 * reaches it (pid_namespaces(7)). Who cannot hear now need not be told, nor waited for: a signal sent at this moment would
 * be dropped. To send one all the same takes the daemon 15 ms.
 */
export function isDeaf(pid: number, containerId: string, signal: NodeJS.Signals): boolean {
  try {
    // Only where that pid is this container's here, too: the daemon may live in another pid namespace.
    if (!isOfContainer(pid, containerId)) return false
    const status = readFileSync(`/proc/${pid}/status`, 'latin1')
    const [caught, blocked] = ['SigCgt', 'SigBlk'].map((field) => maskOf(status, field))
    if (caught === undefined || blocked === undefined) return false
    return (((caught | blocked) >> BigInt(constants.signals[signal] - 1)) & 1n) === 0n
  } catch {
    return false
  }
}

/** The runtime names the cgroups of a container after its id. */
export function isOfContainer(pid: number, containerId: string): boolean {
  try {
    return readFileSync(`/proc/${pid}/cgroup`, 'latin1').includes(containerId)
  } catch {
    return false
  }
}

/** Of proc_pid_status(5). */
function maskOf(status: string, field: string): bigint | undefined {
  const digits = new RegExp(`^${field}:\\s*([0-9a-f]+)$`, 'm').exec(status)?.[1]
  return digits === undefined ? undefined : BigInt(`0x${digits}`)
}
