import { lstatSync, readdirSync, readlinkSync } from 'node:fs'
import { join, relative } from 'node:path'
import { isMarked, processesWhere, type Seen } from '../../test/support/world.ts'
import type { Place } from './place.ts'
import { isOfUser } from './user-files.ts'

/**
 * Counts what is left. The checker reads only files of the kernel, shares no code with Ebb, and is the same for every way. A process belongs to
 * this measurement when the mark is in its arguments, its environment or its working directory. Zombies do not count.
 */
export function processesOf(mark: string): readonly Seen[] {
  return processesWhere((one) => isMarked(one, mark) || workingDirectory(one.pid).includes(mark))
}

/**
 * Counts the processes of a measurement. A chain of forks may be missing in every list of processes. If a process holds the place's leash
 * (a named pipe) open, at least one process exists.
 */
export function countProcesses(place: Place): number {
  const listed = processesOf(place.mark).length
  return listed === 0 && place.isLeashHeld() ? 1 : listed
}

/** Kills every process with the mark after a measurement, and returns their number. */
export function endAll(mark: string): number {
  const left = processesOf(mark)
  for (const { pid } of left) {
    try {
      process.kill(pid, 'SIGKILL')
    } catch {
      // The process has exited in the meantime.
    }
  }
  return left.length
}

export interface FilesLeft {
  readonly count: number
  readonly bytes: number
  readonly names: readonly string[]
}

/** All files in the temp folders, and those in HOME that are not listed as files of the user. */
export function filesOf(place: Place): FilesLeft {
  const found = [
    ...place.tempFolders.flatMap((folder) => filesBelow(folder)),
    ...filesBelow(place.home).filter(({ path, isFolder }) => !isOfUser(`${relative(place.home, path)}${isFolder ? '/' : ''}`)),
  ]
  return {
    count: found.length,
    bytes: found.reduce((sum, { bytes }) => sum + bytes, 0),
    names: found.slice(0, 5).map(({ path }) => path.replace(place.base, '').replace(`/${place.mark}`, '')),
  }
}

interface FoundFile {
  readonly path: string
  readonly isFolder: boolean
  readonly bytes: number
}

/**
 * The files, sockets, links and empty folders below a folder. Their owner may be removing them at the same time, so an error means that
 * they are gone.
 */
function filesBelow(folder: string): readonly FoundFile[] {
  return entriesOf(folder).flatMap((name) => {
    const path = join(folder, name)
    try {
      const stat = lstatSync(path)
      const isFolder = stat.isDirectory()
      const inside = isFolder ? filesBelow(path) : []
      return inside.length > 0 ? inside : [{ path, isFolder, bytes: isFolder ? 0 : stat.size }]
    } catch {
      return []
    }
  })
}

function entriesOf(folder: string): readonly string[] {
  try {
    return readdirSync(folder)
  } catch {
    return []
  }
}

function workingDirectory(pid: number): string {
  try {
    return readlinkSync(`/proc/${pid}/cwd`)
  } catch {
    return ''
  }
}
