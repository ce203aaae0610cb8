import { type Dirent, existsSync, lstatSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { removeHomes, temporaryHome } from '../support/home.ts'
import { installationOf, leftInHome, openBooks } from '../support/ledger-file.ts'
import { cgroupsOf, describe, processesOfHome, waitUntil } from '../support/world.ts'

/**
 * One crash point's own home and workspace, with things in it that are not Ebb's. What is left, and what was touched, is
 * read from the kernel's files, the folders and the database file; no code of the engine takes part in it.
 */
export class Place {
  readonly home = temporaryHome()
  readonly workspace = temporaryHome()
  /** By path relative to the workspace: the inode that must still be there. */
  readonly #foreign = new Map<string, bigint>()

  /** The system's folder for temporary files, as the supervisor sees it. */
  readonly temp = temporaryHome()

  constructor() {
    this.#add('taken.txt')
    this.#add('notes.txt')
    mkdirSync(join(this.workspace, 'traces'))
    this.#foreign.set('traces', inode(join(this.workspace, 'traces')))
    this.#add('traces/theirs.sh')
  }

  #add(path: string): void {
    writeFileSync(join(this.workspace, path), `foreign ${path}`)
    this.#foreign.set(path, inode(join(this.workspace, path)))
  }

  /** Where a resource of ours is not, or not any more, somebody else puts something of the same name. */
  takeFreedPlaces(): void {
    if (!existsSync(join(this.workspace, 'settings.txt'))) this.#add('settings.txt')
    if (existsSync(join(this.workspace, 'folder'))) return
    mkdirSync(join(this.workspace, 'folder'))
    this.#foreign.set('folder', inode(join(this.workspace, 'folder')))
    this.#add('folder/inner.txt')
  }

  /** Waits until nothing is left; throws with the list of what is. */
  async becomesClean(deadlineMs: number): Promise<void> {
    await waitUntil(() => this.#left(), deadlineMs, 'nothing of the supervisor is left').catch((error: Error) => {
      throw new Error(`${error.message}\nThe sentinel said: ${this.#sentinelLog()}`)
    })
    const touched = [...this.#foreign].filter(([path, was]) => inode(join(this.workspace, path)) !== was || !this.#isAsItWas(path))
    if (touched.length > 0) throw new Error(`Foreign things were touched: ${touched.map(([path]) => path).join(', ')}`)
  }

  #sentinelLog(): string {
    const file = join(this.home, 'sentinel.log')
    return existsSync(file) ? readFileSync(file, 'utf8') : 'nothing'
  }

  #isAsItWas(path: string): boolean {
    const full = join(this.workspace, path)
    return lstatSync(full).isDirectory() || readFileSync(full, 'utf8') === `foreign ${path}`
  }

  #left(): readonly string[] {
    const installation = installationOf(this.home)
    return [
      ...processesOfHome(this.home, installation).map((one) => `process ${describe(one)}`),
      ...cgroupsOf(installation ?? 'none').map((directory) => `cgroup ${directory}`),
      ...leftInHome(this.home),
      ...walk(this.workspace)
        .filter((path) => !this.#foreign.has(path) && !this.#isKept(path))
        .map((path) => `file ${path}`),
      ...walk(this.temp).map((path) => `temporary ${path}`),
      ...this.#contents(),
    ]
  }

  /** A database that cannot be read now is no proof of anything, and is read again. */
  #contents(): readonly string[] {
    try {
      const scopes = this.#query("SELECT id, state FROM scope WHERE state != 'closed'")
      return [...openBooks(this.home), ...scopes.map(({ id, state }) => `scope ${String(id)} ${String(state)}`)]
    } catch (error) {
      return [`unknown: ${String(error)}`]
    }
  }

  /** What an agent of a task said, with the folders above it. */
  #isKept(path: string): boolean {
    const archived = walk(this.workspace).filter((one) => /^\.agent-workspace\/TASK-[^/]+\/archive\/[^/]+$/.test(one))
    return archived.some((one) => one === path || one.startsWith(`${path}/`))
  }

  /** Was the deletion of the agent on the books when the supervisor died? */
  isDeletionRecorded(): boolean {
    return this.#query("SELECT wish FROM scope WHERE kind = 'agent'").some(({ closeRequest }) => String(closeRequest).includes('"deleted"'))
  }

  agentRows(): number {
    return this.#query("SELECT id FROM scope WHERE kind = 'agent'").length
  }

  /** What the archive holds of the agent's standard output; undefined when there is none. */
  archivedOutput(): string | undefined {
    const archive = join(this.home, 'archive')
    const found = walk(archive).find((path) => path.endsWith('stdout.log'))
    return found === undefined ? undefined : readFileSync(join(archive, found), 'utf8')
  }

  #query(sql: string): readonly Record<string, unknown>[] {
    const file = join(this.home, 'ebb.db')
    if (!existsSync(file)) return []
    const db = new DatabaseSync(file, { readOnly: true, timeout: 1_000 })
    try {
      return db.prepare(sql).all()
    } finally {
      db.close()
    }
  }

  /** Only when all was well: a failed point's folders are for the guard to look at. */
  remove(): void {
    removeHomes([this.home, this.workspace, this.temp])
  }
}

function inode(path: string): bigint {
  return lstatSync(path, { bigint: true, throwIfNoEntry: false })?.ino ?? 0n
}

/** Step by step: a folder may go while we look, and is then still named by the one above it. */
function walk(folder: string, below = ''): readonly string[] {
  return entries(join(folder, below)).flatMap((entry) => {
    const path = join(below, entry.name)
    return entry.isDirectory() ? [path, ...walk(folder, path)] : [path]
  })
}

function entries(folder: string): readonly Dirent[] {
  try {
    return readdirSync(folder, { withFileTypes: true })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
    throw error
  }
}
