import { execFileSync } from 'node:child_process'
import { environmentTagName } from '../../core/model/identity.ts'
import type { MarkedProcess, ProcessEntry, ProcessTable } from './process-table.ts'

/**
 * The process table of macOS, which has no /proc, from `ps`. It was written against recorded output and is not tested on a Mac.
 * `ps -E` shows the environment only of processes that may be debugged, so a hardened binary is found by its ancestry alone.
 */
const columns = ['-axwwE', '-o', 'pid=,ppid=,pgid=,sess=,stat=,lstart=,command=']

const environmentTagPattern = new RegExp(`(?:^|\\s)${environmentTagName}=(\\S+)`, 'g')

export function parsePs(output: string): readonly ProcessEntry[] {
  return output.split('\n').flatMap((line) => {
    const match = /^\s*(\d+)\s+(\d+)\s+(\d+)\s+(\S+)\s+(\S+)\s+(\w{3}\s+\w{3}\s+\d+\s+[\d:]{8}\s+\d{4})\s+(.*)$/.exec(line)
    if (!match) return []
    const [, pid = '', ppid = '', pgid = '', , state = '', started = '', command = ''] = match
    if (state.startsWith('Z')) return []
    // The environment follows the arguments, so the last match is the one in the environment.
    const environmentTags = [...command.matchAll(environmentTagPattern)].at(-1)?.[1]
    const startTime = String(Math.floor(Date.parse(`${started.replaceAll(/\s+/g, ' ')} UTC`) / 1_000))
    // `sess` is a kernel address on macOS, so the process group serves as session id.
    return [
      {
        pid: Number(pid),
        ppid: Number(ppid),
        pgid: Number(pgid),
        sid: Number(pgid),
        state,
        startTime,
        command: command.split(' ')[0] ?? '',
        environmentTags,
      },
    ]
  })
}

function snapshotNow(): readonly ProcessEntry[] {
  return parsePs(execFileSync('/bin/ps', columns, { encoding: 'utf8', maxBuffer: 64 * 1024 * 1024, env: { TZ: 'UTC', LC_ALL: 'C' } }))
}

function markedNow(): readonly MarkedProcess[] {
  return snapshotNow().flatMap(({ pid, environmentTags }) => (environmentTags === undefined ? [] : [{ pid, environmentTags }]))
}

export const psTable: ProcessTable = {
  find: (pid) => snapshotNow().find((entry) => entry.pid === pid),
  snapshot: async () => snapshotNow(),
  marked: async () => markedNow(),
  markedNow,
}
