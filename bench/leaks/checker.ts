import { lstatSync, readdirSync, readlinkSync } from 'node:fs'
import { join, relative } from 'node:path'
import { isMarked, processesWhere, type Seen } from '../../test/support/world.ts'
import type { Place } from './place.ts'
import { isOfUser } from './user-files.ts'

/**
 * What is left, seen with eyes of its own: the kernel's files alone, no code of Ebb, and the same for every way. A process
 * is of this measurement when the mark is in its arguments, its environment or its working directory; zombies are dead.
 */
export function processesOf(mark: string): readonly Seen[] {
  return processesWhere((one) => isMarked(one, mark) || workingDirectory(one.pid).includes(mark))
}

/** A chain of forks outruns every list of processes; whoever holds the leash is at least one. */
export function countProcesses(place: Place): number {
  const listed = processesOf(place.mark).length
  return listed === 0 && place.isLeashHeld() ? 1 : listed
}

/** When a measurement is over: what carries the mark is ours to end. How many there were. */
export function endAll(mark: string): number {
  const left = processesOf(mark)
  for (const { pid } of left) {
    try {
      process.kill(pid, 'SIGKILL')
    } catch {
      // It went by itself meanwhile.
    }
  }
  return left.length
}

export interface FilesLeft {
  readonly count: number
  readonly bytes: number
  readonly names: readonly string[]
}

/** All of the temp folders, and of the HOME what is not listed as the user's. */
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

/** Files, sockets, links, and folders that are empty; whoever owns them may be removing them at this moment. */
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
