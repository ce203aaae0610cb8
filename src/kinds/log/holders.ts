import { closeSync, constants, openSync, readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { errno } from '../../core/model/errors.ts'
import { nextTurn } from '../../core/ports/turn.ts'

/**
 * Finds the processes that have a file open, by `/proc/PID/fd` and `fdinfo`. Inode numbers are compared, because a process may have opened
 * the file under another name. stat(2) is never called on files of other processes: their disk may not answer, and the call would block
 * this process.
 */
export interface Holder {
  readonly pid: number
  /** The name that the kernel shows for the program of the process; never its arguments. */
  readonly program: string
}

/** The number of descriptors read per turn of the event loop; takes about a millisecond. */
const slice = 100

const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants

/** An open file as `/proc` shows its descriptor. */
interface OpenFile {
  /** The path as the process sees it, or another name of the kernel for it. */
  readonly name: string
  /** The id of the file's mount in the mountinfo of the same process. */
  readonly mount: string | undefined
  /** The inode number, which Linux 5.14 and later show. */
  readonly inode: string | undefined
}

interface Wanted extends OpenFile {
  /** The device number in mountinfo(5). On btrfs, for example, stat(2) shows another one. */
  readonly device: string | undefined
}

/**
 * Errors that mean that the process is gone or may not be read. Other errors, such as no free descriptor, prove nothing and are thrown
 * (G4).
 */
const conclusive: ReadonlySet<string | undefined> = new Set(['ENOENT', 'ESRCH', 'EACCES', 'EPERM', 'ENOTDIR', 'ELOOP'])

/**
 * Queries during a pass share the next pass. So the logs of fifty agents that end at once take two passes, and every answer is observed
 * after its query.
 */
export class Holders {
  readonly #directory: string
  #wanted = new Map<string, Wanted>()
  #next: Promise<ReadonlyMap<string, readonly Holder[]>> | undefined
  #current: Promise<unknown> = Promise.resolve()
  /** The number of passes so far. */
  passes = 0

  constructor(directory = '/proc') {
    this.#directory = directory
  }

  /** All holders except this process. A path that does not exist or is not a file has none. */
  async find(path: string): Promise<readonly Holder[]> {
    const file = this.#identify(path)
    if (!file) return []
    this.#wanted.set(path, file)
    this.#next ??= this.#current.then(() => {
      const wanted = this.#wanted
      this.#wanted = new Map()
      this.#next = undefined
      const pass = this.#pass(wanted)
      // The promise `#current` only orders the passes, so it ignores their errors. The callers get the error from `pass`.
      this.#current = pass.catch(() => {})
      return pass
    })
    return (await this.#next).get(path) ?? []
  }

  /** Opens the file and reads our own descriptor in `/proc`, so that the values are comparable with those of other processes. */
  #identify(path: string): Wanted | undefined {
    return quietly(() => {
      const fd = openSync(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
      try {
        const file = this.#fileOf('self', String(fd))
        return file && { ...file, device: this.#deviceOf('self', file) }
      } finally {
        closeSync(fd)
      }
    })
  }

  async #pass(wanted: ReadonlyMap<string, Wanted>): Promise<ReadonlyMap<string, readonly Holder[]>> {
    this.passes += 1
    const candidates = Map.groupBy(wanted, ([, { inode, name }]) => inode ?? name)
    const found = new Map<string, Holder[]>()
    let count = 0
    for (const pid of namesIn(this.#directory)) {
      if (!/^\d+$/.test(pid) || Number(pid) === process.pid) continue
      for (const fd of namesIn(`${this.#directory}/${pid}/fd`)) {
        if (++count % slice === 0) await nextTurn()
        const file = this.#fileOf(pid, fd)
        for (const [path, candidate] of (file && candidates.get(file.inode ?? file.name)) ?? []) {
          if (!file || !this.#isSame(pid, file, candidate)) continue
          const holders = found.get(path) ?? []
          if (!holders.some((holder) => holder.pid === Number(pid))) holders.push({ pid: Number(pid), program: this.#programOf(pid) })
          found.set(path, holders)
        }
      }
    }
    return found
  }

  #fileOf(pid: string, fd: string): OpenFile | undefined {
    const name = quietly(() => nameOf(`${this.#directory}/${pid}/fd/${fd}`))
    // Pipes and sockets have no path. /dev/null is skipped because most programs have it open.
    if (!name?.startsWith('/') || name === '/dev/null') return undefined
    const info = quietly(() => readFileSync(`${this.#directory}/${pid}/fdinfo/${fd}`, 'latin1')) ?? ''
    const field = (key: string): string | undefined => new RegExp(`^${key}:\\s*(\\d+)$`, 'm').exec(info)?.[1]
    return { name: name.replace(/ \(deleted\)$/, ''), mount: field('mnt_id'), inode: field('ino') }
  }

  /** An inode number is unique only within its file system. When the device is not known, the names are compared. */
  #isSame(pid: string, file: OpenFile, wanted: Wanted): boolean {
    const device = file.inode === undefined ? undefined : this.#deviceOf(pid, file)
    return device === undefined || wanted.device === undefined ? file.name === wanted.name : device === wanted.device
  }

  #deviceOf(pid: string, { mount }: OpenFile): string | undefined {
    const text = quietly(() => readFileSync(`${this.#directory}/${pid}/mountinfo`, 'utf8')) ?? ''
    const fields = text.split('\n').map((line) => line.split(' ', 3))
    return fields.find(([id]) => id !== undefined && id === mount)?.[2]
  }

  #programOf(pid: string): string {
    return quietly(() => readFileSync(`${this.#directory}/${pid}/comm`, 'utf8').trim()) ?? 'a program'
  }
}

/**
 * The target of a descriptor's link; `/` for a path that is longer than a page, which the kernel does not show (d_path(9)). No log has
 * such a path, but the inode number may still be that of a log.
 */
function nameOf(descriptor: string): string {
  try {
    return readlinkSync(descriptor)
  } catch (error) {
    if (errno(error) === 'ENAMETOOLONG') return '/'
    throw error
  }
}

/** The entries of a directory; none without /proc. */
function namesIn(directory: string): readonly string[] {
  return quietly(() => readdirSync(directory)) ?? []
}

/** The result of `read`; undefined when the process is gone or may not be read. */
function quietly<T>(read: () => T): T | undefined {
  try {
    return read()
  } catch (error) {
    if (conclusive.has(errno(error))) return undefined
    throw error
  }
}
