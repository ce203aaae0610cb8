import * as fs from 'node:fs'
import { join } from 'node:path'
import { EbbError, errno } from '../core/model/errors.ts'
import { nextTurn } from '../core/ports/turn.ts'
import { inFolder, mountAt, refused } from './path.ts'

/**
 * Removes a folder with all that is in it, a little in each turn of the event loop. No link is followed, no file system is
 * crossed, and it does not matter how deep it is: a path has 4,096 bytes at most, so a folder in a folder first moves to the top.
 */
export async function removeFolder(path: string): Promise<void> {
  if (isGoneWhenEmpty(path)) return
  const mounted = mountAt(path)
  if (mounted !== undefined) throw refused(mounted, 'another file system is mounted there; unmount it first')
  await new Removal(path).run()
}

/** Most are empty: one call instead of ten. It takes no link, nothing that is mounted, and nothing with something in it. */
function isGoneWhenEmpty(path: string): boolean {
  try {
    fs.rmdirSync(path)
    return true
  } catch {
    return false
  }
}

/** So many at once keep the threads of Node's pool busy, and the event loop free. */
const atOnce = 256

/** What is done at once takes microseconds, but there may be a hundred thousand of it. */
const turnMs = 5

/** Who still finds something then is up against somebody who writes into it. */
const mostPasses = 3

const hints: ReadonlyMap<string, string> = new Map([
  ['EPERM', 'take its flags away (chattr -i) and remove it'],
  ['EBUSY', 'unmount what is mounted there'],
])

const { O_RDONLY, O_DIRECTORY, O_NOFOLLOW } = fs.constants

class Removal {
  readonly #root: string
  #device = 0
  #moved = 0
  #turnBegan = performance.now()
  /** Why something is still there; the first of them is told, and the rest goes all the same. */
  #problem: Error | undefined

  constructor(root: string) {
    this.#root = root
  }

  async run(): Promise<void> {
    for (let pass = 1; pass <= mostPasses; pass++) {
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
    throw refused(this.#root, 'somebody still writes into it; end that program')
  }

  async #pass(top: string | Buffer, device: number): Promise<void> {
    this.#device = device
    const folders: Buffer[] = []
    await this.#empty(top, this.#root, (name) => void folders.push(name))
    // What is moved to the top on the way joins them.
    for (let name = folders.pop(); name !== undefined; name = folders.pop()) {
      const folder = name
      await this.#noting(join(this.#root, String(folder)), () => this.#removeOne(top, folder, folders))
    }
  }

  /** Its files go, its folders move to the top, then it goes itself. */
  async #removeOne(top: string | Buffer, name: Buffer, folders: Buffer[]): Promise<void> {
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
        // The name is taken: by a file, or by a folder with something in it.
        if (errno(error) !== 'ENOTDIR' && errno(error) !== 'ENOTEMPTY' && errno(error) !== 'EEXIST') throw error
      }
    }
  }

  /** Files beside the event loop, because one of gigabytes takes its time; of folders, `onFolder` is told. */
  async #empty(folder: string | Buffer, shown: string, onFolder: (name: Buffer) => void): Promise<void> {
    const entries = fs.opendirSync(folder, { bufferSize: atOnce, encoding: 'buffer' as BufferEncoding })
    try {
      const unlinks: Promise<void>[] = []
      for (let entry = entries.readSync(); entry; entry = entries.readSync()) {
        // As the encoding says; the types of Node know it only for readdir.
        const name = entry.name as unknown as Buffer
        const what = join(shown, String(name))
        if (entry.isDirectory()) await this.#noting(what, async () => onFolder(name))
        else unlinks.push(this.#noting(what, () => unlink(inFolder(folder, name))))
        if (unlinks.length >= atOnce) await Promise.all(unlinks.splice(0))
        await this.#breathe()
      }
      await Promise.all(unlinks)
    } finally {
      entries.closeSync()
    }
  }

  async #breathe(): Promise<void> {
    if (performance.now() - this.#turnBegan < turnMs) return
    await nextTurn()
    this.#turnBegan = performance.now()
  }

  /**
   * By its descriptor, where the kernel lets us: what happens to the path meanwhile leads nowhere else. It becomes
   * readable and writable first: it is ours, and an agent may have taken all permissions away.
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

  /** One thing that does not go keeps no other from going. */
  async #noting(what: string, act: () => Promise<void>): Promise<void> {
    try {
      await act()
    } catch (error) {
      if (errno(error) === 'ENOENT') return
      this.#problem ??= error instanceof EbbError ? error : this.#explain(what, errno(error) ?? String(error))
    }
  }

  #explain(what: string, code: string): Error {
    if (code === 'ENOTEMPTY') return refused(what, 'somebody still writes into it; end that program')
    return refused(this.#root, `${what} cannot be removed (${code}); ${hints.get(code) ?? 'remove it by hand'}`)
  }
}

function unlink(path: Buffer): Promise<void> {
  return new Promise((resolve, reject) => fs.unlink(path, (error) => (error ? reject(error) : resolve())))
}

/** Of a folder of ours that forbids it, tried again when it does not. */
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
