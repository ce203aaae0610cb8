import { closeSync, constants, openSync, readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { errno } from '../../core/model/errors.ts'
import { nextTurn } from '../../core/ports/turn.ts'

/**
 * Who has a file open, by `/proc/PID/fd` and `fdinfo`: a path alone would miss who opened it under another name. Never by a
 * stat(2) of what others have open: that may be on a disk that does not answer, and would keep everybody waiting with us.
 */
export interface Holder {
  readonly pid: number
  /** Its program's name as the kernel has it; never its arguments. */
  readonly program: string
}

/** So many descriptors are looked at in one turn of the event loop: about a millisecond. */
const slice = 100

const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants

/** A file as the kernel tells of a descriptor of it. */
interface OpenFile {
  /** Its path as the process sees it, or what else the kernel calls it. */
  readonly name: string
  /** The number of its mount, for the mountinfo of the same process. */
  readonly mount: string | undefined
  /** Not before Linux 5.14. */
  readonly inode: string | undefined
}

interface Wanted extends OpenFile {
  /** What the file system is called by mountinfo(5); stat(2) may call it otherwise, as on btrfs. */
  readonly device: string | undefined
}

/** Gone, or not ours to look into. Anything else, such as no free descriptor, is no answer at all, and is thrown (G4). */
const telling: ReadonlySet<string | undefined> = new Set(['ENOENT', 'ESRCH', 'EACCES', 'EPERM', 'ENOTDIR', 'ELOOP'])

/**
 * Whoever asks while a pass runs shares the one after it, so that the logs of fifty agents that end at once cost two
 * passes, and every answer was looked for after its question.
 */
export class Holders {
  readonly #directory: string
  #wanted = new Map<string, Wanted>()
  #next: Promise<ReadonlyMap<string, readonly Holder[]>> | undefined
  #current: Promise<unknown> = Promise.resolve()
  /** Passes so far. */
  passes = 0

  constructor(directory = '/proc') {
    this.#directory = directory
  }

  /** Everybody but ourselves. A path that is no file, or is not there, has none. */
  async find(path: string): Promise<readonly Holder[]> {
    const file = this.#seen(path)
    if (!file) return []
    this.#wanted.set(path, file)
    this.#next ??= this.#current.then(() => {
      const wanted = this.#wanted
      this.#wanted = new Map()
      this.#next = undefined
      const pass = this.#pass(wanted)
      this.#current = pass.catch(() => {})
      return pass
    })
    return (await this.#next).get(path) ?? []
  }

  /** By a descriptor of our own, so that the same words mean the same. */
  #seen(path: string): Wanted | undefined {
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
        for (const [path, one] of (file && candidates.get(file.inode ?? file.name)) ?? []) {
          if (!file || !this.#isSame(pid, file, one)) continue
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
    // Pipes, sockets and the like have no path; and most programs have the empty device open.
    if (!name?.startsWith('/') || name === '/dev/null') return undefined
    const info = quietly(() => readFileSync(`${this.#directory}/${pid}/fdinfo/${fd}`, 'latin1')) ?? ''
    const field = (key: string): string | undefined => new RegExp(`^${key}:\\s*(\\d+)$`, 'm').exec(info)?.[1]
    return { name: name.replace(/ \(deleted\)$/, ''), mount: field('mnt_id'), inode: field('ino') }
  }

  /** An inode's number is only its own within its file system; where that is not known, its name has to do. */
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

/** Of a path that is longer than a page the kernel tells nothing (d_path(9)): it is no name of ours, but may be our file. */
function nameOf(descriptor: string): string {
  try {
    return readlinkSync(descriptor)
  } catch (error) {
    if (errno(error) === 'ENAMETOOLONG') return '/'
    throw error
  }
}

/** Where there is no /proc, nobody is known. */
function namesIn(directory: string): readonly string[] {
  return quietly(() => readdirSync(directory)) ?? []
}

function quietly<T>(look: () => T): T | undefined {
  try {
    return look()
  } catch (error) {
    if (telling.has(errno(error))) return undefined
    throw error
  }
}
