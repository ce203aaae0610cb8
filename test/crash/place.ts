import { type Dirent, existsSync, lstatSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { removeHomes, temporaryHome } from '../support/home.ts'
import { installationOf, leftInHome, openBooks } from '../support/ledger-file.ts'
import { cgroupsOf, describe, processesOfHome, waitUntil } from '../support/world.ts'

/**
 * The home and workspace of one crash point, with foreign things in them. What is left or touched is read from the kernel's files, the
 * folders and the database file, without code of the engine.
 */
export class Place {
  readonly home = temporaryHome()
  readonly workspace = temporaryHome()
  /** Foreign paths relative to the workspace, with the inode that must still be there. */
  readonly #foreign = new Map<string, bigint>()

  /** The value of TMPDIR for the supervisor. */
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

  /** Creates foreign files with the names of Ebb's resources, where those resources do not exist or do not exist any more. */
  takeFreedPlaces(): void {
    if (!existsSync(join(this.workspace, 'settings.txt'))) this.#add('settings.txt')
    if (existsSync(join(this.workspace, 'folder'))) return
    mkdirSync(join(this.workspace, 'folder'))
    this.#foreign.set('folder', inode(join(this.workspace, 'folder')))
    this.#add('folder/inner.txt')
  }

  /** Waits until nothing is left. Throws with a list of leftovers. */
  async becomesClean(deadlineMs: number): Promise<void> {
    await waitUntil(() => this.#left(), deadlineMs, 'nothing of the supervisor is left').catch((error: Error) => {
      throw new Error(`${error.message}\nThe sentinel's log: ${this.#sentinelLog()}`)
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
      ...processesOfHome(this.home, installation).map((found) => `process ${describe(found)}`),
      ...cgroupsOf(installation ?? 'none').map((directory) => `cgroup ${directory}`),
      ...leftInHome(this.home),
      ...walk(this.workspace)
        .filter((path) => !this.#foreign.has(path) && !this.#isKept(path))
        .map((path) => `file ${path}`),
      ...walk(this.temp).map((path) => `temporary ${path}`),
      ...this.#contents(),
    ]
  }

  /** Open records of the ledger. A database that cannot be read at the moment proves nothing and is read again. */
  #contents(): readonly string[] {
    try {
      const scopes = this.#query("SELECT id, state FROM scope WHERE state != 'closed'")
      return [...openBooks(this.home), ...scopes.map(({ id, state }) => `scope ${String(id)} ${String(state)}`)]
    } catch (error) {
      return [`unknown: ${String(error)}`]
    }
  }

  /** Whether a path stays after the agent's deletion: the archive of an agent of a task, and the folders above it. */
  #isKept(path: string): boolean {
    const archived = walk(this.workspace).filter((file) => /^\.agent-workspace\/TASK-[^/]+\/archive\/[^/]+$/.test(file))
    return archived.some((file) => file === path || file.startsWith(`${path}/`))
  }

  /** Whether the deletion of the agent was in the ledger when the supervisor died. */
  isDeletionRecorded(): boolean {
    return this.#query("SELECT wish FROM scope WHERE kind = 'agent'").some(({ wish }) => String(wish).includes('"deleted"'))
  }

  agentRows(): number {
    return this.#query("SELECT id FROM scope WHERE kind = 'agent'").length
  }

  /** The archived standard output of the agent, or undefined without one. */
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

  /** Removes the folders of a crash point that succeeded. The folders of a failed point stay for the guard of the tests. */
  remove(): void {
    removeHomes([this.home, this.workspace, this.temp])
  }
}

function inode(path: string): bigint {
  return lstatSync(path, { bigint: true, throwIfNoEntry: false })?.ino ?? 0n
}

/** All paths below a folder. A folder may be removed while it is read; its parent has listed it. */
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
