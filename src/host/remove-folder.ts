import * as fs from 'node:fs'
import { join } from 'node:path'
import { EbbError, errno } from '../core/model/errors.ts'
import { nextTurn } from '../core/ports/turn.ts'
import { monotonicMs } from './clock.ts'
import { inFolder, mountAt, refused } from './path.ts'

/**
 * Removes a folder with its contents, a few entries per turn of the event loop. It follows no symlink and stays on one file system.
 * A path has at most 4,096 bytes, so each nested folder is first moved to the top. Thus any depth can be removed.
 */
export async function removeFolder(path: string): Promise<void> {
  if (removeEmpty(path)) return
  const mounted = mountAt(path)
  if (mounted !== undefined) throw refused(mounted, 'another file system is mounted there; unmount it first')
  await new Removal(path).run()
}

/**
 * Removes an empty folder with one rmdir(2), which replaces ten calls; most folders are empty. rmdir(2) fails for symlinks, mount points
 * and folders with contents.
 */
function removeEmpty(path: string): boolean {
  try {
    fs.rmdirSync(path)
    return true
  } catch {
    return false
  }
}

/** The number of unlinks under way together: enough to keep Node's thread pool busy. */
const batchSize = 256

/** The time after which the event loop gets a turn. A synchronous call takes microseconds, but there may be a hundred thousand of them. */
const turnMs = 5

/** When entries are left after this many passes, another program is still writing into the folder. */
const maxPasses = 3

const hints: ReadonlyMap<string, string> = new Map([
  ['EPERM', 'take its flags away (chattr -i) and remove it'],
  ['EBUSY', 'unmount what is mounted there'],
])

const { O_RDONLY, O_DIRECTORY, O_NOFOLLOW } = fs.constants

class Removal {
  readonly #root: string
  #device = 0
  #moved = 0
  #turnBegan = monotonicMs()
  /** The first failure. The removal continues with the other entries, and then throws this error. */
  #problem: Error | undefined

  constructor(root: string) {
    this.#root = root
  }

  async run(): Promise<void> {
    for (let pass = 1; pass <= maxPasses; pass++) {
      try {
        await this.#inside(this.#root, (top, device) => this.#pass(top, device))
        fs.rmdirSync(this.#root)
        return
      } catch (error) {
        if (errno(error) === 'ENOENT') return
        if (errno(error) !== 'ENOTEMPTY' && errno(error) !== 'EEXIST') throw error
        if (this.#problem) throw this.#problem
      }
    }
    throw refused(this.#root, 'a program still writes into it; end that program')
  }

  async #pass(top: string | Buffer, device: number): Promise<void> {
    this.#device = device
    const folders: Buffer[] = []
    await this.#empty(top, this.#root, (name) => void folders.push(name))
    // Nested folders that are moved to the top join the list.
    for (let name = folders.pop(); name !== undefined; name = folders.pop()) {
      const folder = name
      await this.#recordingFailure(join(this.#root, String(folder)), () => this.#removeTopFolder(top, folder, folders))
    }
  }

  /** Unlinks the files of a folder, moves its folders to the top, and removes it. */
  async #removeTopFolder(top: string | Buffer, name: Buffer, folders: Buffer[]): Promise<void> {
    const shown = join(this.#root, String(name))
    await this.#inside(inFolder(top, name), async (folder, device) => {
      if (device !== this.#device) throw refused(shown, 'another file system is mounted there; unmount it first')
      await this.#empty(folder, shown, (entry) => void folders.push(this.#toTop(inFolder(folder, entry), top)))
    })
    fs.rmdirSync(inFolder(top, name))
  }

  #toTop(from: Buffer, top: string | Buffer): Buffer {
    for (;;) {
      const name = Buffer.from(`.ebb-${++this.#moved}`)
      try {
        permitted(from, () => fs.renameSync(from, inFolder(top, name)))
        return name
      } catch (error) {
        // The new name is taken by a file or by a folder that is not empty: try the next name.
        if (errno(error) !== 'ENOTDIR' && errno(error) !== 'ENOTEMPTY' && errno(error) !== 'EEXIST') throw error
      }
    }
  }

  /** Unlinks files in the thread pool, because a file of gigabytes takes long. Calls `onFolder` for each folder. */
  async #empty(folder: string | Buffer, shown: string, onFolder: (name: Buffer) => void): Promise<void> {
    const entries = fs.opendirSync(folder, { bufferSize: batchSize, encoding: 'buffer' as BufferEncoding })
    try {
      const unlinks: Promise<void>[] = []
      for (let entry = entries.readSync(); entry; entry = entries.readSync()) {
        // With the encoding `buffer` the name of an entry is a Buffer. Node's types declare that for readdir only, not for opendir.
        const name = entry.name as unknown as Buffer
        const path = join(shown, String(name))
        if (entry.isDirectory()) await this.#recordingFailure(path, async () => onFolder(name))
        else unlinks.push(this.#recordingFailure(path, () => unlink(inFolder(folder, name))))
        if (unlinks.length >= batchSize) await Promise.all(unlinks.splice(0))
        await this.#yieldTurn()
      }
      await Promise.all(unlinks)
    } finally {
      entries.closeSync()
    }
  }

  async #yieldTurn(): Promise<void> {
    if (monotonicMs() - this.#turnBegan < turnMs) return
    await nextTurn()
    this.#turnBegan = monotonicMs()
  }

  /**
   * Opens the folder and uses it by descriptor where the system allows it, so that a swapped path cannot lead elsewhere. An agent may
   * have removed all permissions, so the folder is made readable and writable first.
   */
  async #inside(path: string | Buffer, use: (folder: string | Buffer, device: number) => Promise<void>): Promise<void> {
    const fd = permitted(path, () => fs.openSync(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW))
    try {
      const { mode, dev } = fs.fstatSync(fd)
      if ((mode & 0o700) !== 0o700) fs.fchmodSync(fd, 0o700)
      await use(process.platform === 'linux' ? `/proc/self/fd/${fd}` : path, dev)
    } finally {
      fs.closeSync(fd)
    }
  }

  /** An entry that cannot be removed does not stop the removal of the others. */
  async #recordingFailure(path: string, act: () => Promise<void>): Promise<void> {
    try {
      await act()
    } catch (error) {
      if (errno(error) === 'ENOENT') return
      this.#problem ??= error instanceof EbbError ? error : this.#explain(path, errno(error) ?? String(error))
    }
  }

  #explain(path: string, code: string): Error {
    if (code === 'ENOTEMPTY') return refused(path, 'a program still writes into it; end that program')
    return refused(this.#root, `${path} cannot be removed (${code}); ${hints.get(code) ?? 'remove it by hand'}`)
  }
}

function unlink(path: Buffer): Promise<void> {
  return new Promise((resolve, reject) => fs.unlink(path, (error) => (error ? reject(error) : resolve())))
}

/** Runs a call on a path. When a folder of this user refuses access, changes its mode and runs the call again. */
function permitted<T>(path: string | Buffer, act: () => T): T {
  try {
    return act()
  } catch (error) {
    if (errno(error) !== 'EACCES') throw error
    const stat = fs.lstatSync(path)
    if (!stat.isDirectory() || stat.uid !== process.getuid?.()) throw error
    fs.chmodSync(path, 0o700)
    return act()
  }
}
