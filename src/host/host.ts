import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { type Incarnation, incarnationId, parseEnvironmentTags, parseIncarnationId, shortBootId } from '../core/model/identity.ts'
import type { Host } from '../core/ports/host.ts'
import type { NewId } from '../core/ports/ids.ts'
import { pidNamespace, readEntry } from './processes/proc.ts'
import type { ProcessTable } from './processes/process-table.ts'

/** This machine: the identity of this supervisor, and whether another supervisor is still alive. */
export function openHost(installation: string, processes: ProcessTable, inheritedTag = ''): Host {
  const incarnation = process.platform === 'darwin' ? darwinIncarnation(processes) : linuxIncarnation()
  const id = incarnationId(incarnation)
  const boot = shortBootId(incarnation.bootId)
  return {
    installation,
    incarnation,
    incarnationId: id,
    outerIncarnations: new Set(parseEnvironmentTags(inheritedTag).map((mark) => mark.incarnation)),
    isThisBoot: (other) => parseIncarnationId(other)?.shortBootId === boot,
    vitality: (other) => {
      const name = parseIncarnationId(other)
      if (!name) return 'unknown'
      if (name.shortBootId !== boot) return 'dead'
      if (name.pidNamespace !== incarnation.pidNamespace) return 'unknown'
      try {
        return processes.find(name.pid)?.startTime === name.startTime ? 'alive' : 'dead'
      } catch {
        return 'unknown' // The process table could not be read, which does not prove that the supervisor is dead (G4).
      }
    },
  }
}

function linuxIncarnation(): Incarnation {
  const entry = readEntry('self')
  return {
    bootId: readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim(),
    pidNamespace: pidNamespace(),
    pid: process.pid,
    startTime: entry?.startTime ?? '0',
  }
}

function darwinIncarnation(processes: ProcessTable): Incarnation {
  const bootId = execFileSync('/usr/sbin/sysctl', ['-n', 'kern.bootsessionuuid'], { encoding: 'utf8' }).trim().toLowerCase()
  return { bootId, pidNamespace: '0', pid: process.pid, startTime: processes.find(process.pid)?.startTime ?? '0' }
}

/** A UUID from the kernel (random(4)). Loading `node:crypto` for this alone would add 11 ms to each start. */
export const kernelId: NewId = () => {
  try {
    return readFileSync('/proc/sys/kernel/random/uuid', 'latin1').trim()
  } catch {
    return globalThis.crypto.randomUUID()
  }
}
