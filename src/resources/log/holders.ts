import { type BigIntStats, readdirSync, readFileSync, statSync } from 'node:fs'
import { errno } from '../../domain/errors.ts'
import { nextTurn } from '../../ports/turn.ts'

/** Who has a file open, by `/proc/PID/fd`: a path alone would miss who opened it under another name. */
export interface Holder {
  readonly pid: number
  /** Its program's name as the kernel has it; never its arguments. */
  readonly program: string
}

/** So many descriptors are looked at in one turn of the event loop: about a millisecond. */
const slice = 200

/** Gone, or not ours to look into. Anything else, such as no free descriptor, is no answer at all, and is thrown (G4). */
const telling: ReadonlySet<string | undefined> = new Set(['ENOENT', 'ESRCH', 'EACCES', 'EPERM', 'ENOTDIR'])

/**
 * Whoever asks while a pass runs shares the one after it, so that the logs of fifty agents that end at once cost two
 * passes, and every answer was looked for after its question.
 */
export class Holders {
  readonly #directory: string
  #wanted = new Set<string>()
  #next: Promise<ReadonlyMap<string, readonly Holder[]>> | undefined
  #current: Promise<unknown> = Promise.resolve()
  /** Passes so far. */
  passes = 0

  constructor(directory = '/proc') {
    this.#directory = directory
  }

  /** Everybody but ourselves. */
  async find(file: BigIntStats): Promise<readonly Holder[]> {
    const key = keyOf(file)
    this.#wanted.add(key)
    this.#next ??= this.#current.then(() => {
      const wanted = this.#wanted
      this.#wanted = new Set()
      this.#next = undefined
      const pass = this.#pass(wanted)
      this.#current = pass.catch(() => {})
      return pass
    })
    return (await this.#next).get(key) ?? []
  }

  async #pass(wanted: ReadonlySet<string>): Promise<ReadonlyMap<string, readonly Holder[]>> {
    this.passes += 1
    const inodes = new Set([...wanted].map((key) => Number(key.slice(key.indexOf(' ') + 1))))
    const found = new Map<string, Holder[]>()
    let count = 0
    for (const pid of namesIn(this.#directory).map(Number)) {
      if (!Number.isInteger(pid) || pid === process.pid) continue
      const folder = `${this.#directory}/${pid}/fd`
      for (const fd of namesIn(folder)) {
        if (++count % slice === 0) await nextTurn()
        const key = fileOf(`${folder}/${fd}`, inodes)
        if (key === undefined || !wanted.has(key)) continue
        const holders = found.get(key) ?? []
        if (!holders.some((one) => one.pid === pid)) holders.push({ pid, program: this.#programOf(pid) })
        found.set(key, holders)
      }
    }
    return found
  }

  #programOf(pid: number): string {
    return quietly(() => readFileSync(`${this.#directory}/${pid}/comm`, 'utf8').trim()) ?? 'a program'
  }
}

function keyOf({ dev, ino }: Pick<BigIntStats, 'dev' | 'ino'>): string {
  return `${dev} ${ino}`
}

/** Where there is no /proc, nobody is known. */
function namesIn(directory: string): readonly string[] {
  return quietly(() => readdirSync(directory)) ?? []
}

/** Large inode numbers are only nearly right as numbers; those that look right are looked at again. */
function fileOf(path: string, inodes: ReadonlySet<number>): string | undefined {
  return quietly(() => (inodes.has(statSync(path).ino) ? keyOf(statSync(path, { bigint: true })) : undefined))
}

function quietly<T>(look: () => T): T | undefined {
  try {
    return look()
  } catch (error) {
    if (telling.has(errno(error))) return undefined
    throw error
  }
}
