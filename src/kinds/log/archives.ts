// As a property, which Node fills when it is asked for: to load it costs those who archive nothing 4 ms.
import { existsSync, promises as files, type Stats } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { errno } from '../../core/model/errors.ts'
import type { Resource } from '../../core/model/resource.ts'
import { gainsByCompression } from '../../core/model/retention.ts'
import type { ArchivedFile, Archives } from '../../core/ports/archives.ts'
import type { Clock } from '../../core/ports/clock.ts'
import type { Effects } from '../../core/ports/effects.ts'
import type { LogSpec } from '../../core/ports/process.ts'
import { missingStep, refused, stagingPath } from '../../host/path.ts'
import { contentOf } from './content.ts'
import { archiveOf, streamOf, wayTo } from './place.ts'

export type Recorded = Pick<Resource, 'id' | 'kind' | 'spec' | 'detail'>

export interface ArchivesDeps {
  readonly effects: Effects
  readonly clock: Clock
  /** Of the home. */
  readonly directory: string
  /** What the ledger has of an agent's scope. */
  readonly resources: (agentId: string) => Promise<readonly Recorded[]>
  /** The folders in which they were may be empty now. */
  readonly leaveFolders?: (resources: readonly Recorded[]) => Promise<void>
  readonly onBytes?: (what: 'freed', bytes: number) => void
}

/** As an archive may end; what comes first counts, where a crash has left both. */
const endings = ['', '.zst', '.gz'] as const

const order = ['stdout', 'progress', 'findings']

/** Younger ones may be somebody's who compresses at this moment; an older one was left by a crash. */
const staleMs = 3_600_000

/** What rmdir(2) says of a folder that stays. On a read-only file system it says so before it looks whether the folder is empty. */
const stays = ['ENOTEMPTY', 'EEXIST', 'ENOENT', 'EBUSY', 'EROFS', 'EACCES', 'EPERM']

interface ArchivedLog {
  readonly spec: LogSpec
  readonly path: string
  readonly staging: string
}

/** Never anything that the ledger does not name, and never through a link (G10). */
export class LedgerArchives implements Archives {
  readonly #deps: ArchivesDeps

  constructor(deps: ArchivesDeps) {
    this.#deps = deps
  }

  async files(agentId: string): Promise<readonly ArchivedFile[]> {
    const found: ArchivedFile[] = []
    for (const log of await this.#logs(agentId)) {
      if (!this.#isReachable(log)) continue
      for (const ending of endings) {
        const path = `${log.path}${ending}`
        const bytes = await sizeOfFile(path)
        if (bytes === undefined) continue
        found.push({ stream: streamOf(log.spec), path, bytes, isCompressed: ending !== '' })
        break
      }
    }
    return found.toSorted((a, b) => rank(a) - rank(b))
  }

  async remove(agentId: string): Promise<void> {
    const own = join(this.#deps.directory, agentId)
    // What needs no database goes whatever the state of the database.
    await this.#removeFolder(own)
    const resources = await this.#deps.resources(agentId)
    for (const log of logsAmong(resources)) if (dirname(log.path) !== own) await this.#removeLog(log)
    await this.#unlessItStays(async () => await this.#deps.leaveFolders?.(resources))
  }

  async #removeFolder(folder: string): Promise<void> {
    // Most have none; and with no pid left for the threads of the pool Node would abort at the first look beside the loop (G12).
    if (!existsSync(folder)) return
    const bytes = await bytesIn(folder)
    if (bytes === undefined) return
    await this.#deps.effects.discard(folder)
    if (await look(folder)) throw new Error(`The archive ${folder} is still there.`)
    if (bytes > 0) this.#deps.onBytes?.('freed', bytes)
  }

  /**
   * Somebody may be compressing it: with the log itself gone none begins, and with the half-made file gone none of those
   * who had begun comes to its end. Whatever is at the place must be a file: anything else is not ours.
   */
  async #removeLog(log: ArchivedLog): Promise<void> {
    const { effects, onBytes } = this.#deps
    if (!this.#requireWay(log)) return
    for (const path of [log.path, log.staging, ...endings.slice(1).map((ending) => `${log.path}${ending}`)]) {
      const stat = await look(path)
      if (!stat) continue
      if (!stat.isFile()) throw refused(path, 'it is not the archive that was put there; look at it, and remove it')
      await effects.discard(path)
      if (await look(path)) throw new Error(`The archive ${path} is still there.`)
      if (stat.size > 0) onBytes?.('freed', stat.size)
    }
    // In a workspace the folder was made for what was in it.
    if (log.spec.inside?.archive.includes('/')) await this.#unlessItStays(() => effects.removeDirectory(dirname(log.path)))
  }

  /** A folder that is not empty, or that nobody may remove here, is no archive of anybody's: nothing of this agent is in it. */
  async #unlessItStays(leave: () => unknown): Promise<void> {
    try {
      await leave()
    } catch (error) {
      if (!stays.includes(errno(error) ?? '')) throw error
    }
  }

  async compress(agentId: string, file: ArchivedFile): Promise<number> {
    const { path, bytes } = file
    const { effects, clock, onBytes } = this.#deps
    const log = (await this.#logs(agentId)).find((one) => one.path === path)
    if (!log || !gainsByCompression(file) || !this.#requireWay(log)) return 0
    const begun = await look(log.staging)
    if (begun && Date.parse(clock.wall()) - begun.mtimeMs < staleMs) return 0
    if (begun) await effects.discard(log.staging)
    try {
      await effects.compress(path, log.staging)
    } catch (error) {
      if (errno(error) === 'EEXIST') return 0
      await effects.discard(log.staging)
      throw error
    }
    const after = (await sizeOfFile(log.staging)) ?? bytes
    this.#requireWay(log)
    effects.rename(log.staging, `${path}.zst`)
    await effects.flush(dirname(path))
    await effects.discard(path)
    const freed = Math.max(0, bytes - after)
    if (freed > 0) onBytes?.('freed', freed)
    return freed
  }

  read({ path }: ArchivedFile): AsyncIterable<Uint8Array> {
    return contentOf(path)
  }

  async #logs(agentId: string): Promise<readonly ArchivedLog[]> {
    return logsAmong(await this.#deps.resources(agentId))
  }

  #isReachable(log: ArchivedLog): boolean {
    try {
      return this.#requireWay(log)
    } catch {
      return false
    }
  }

  /** False where not even its folder is there. A way through a link, or out of the home, is refused. */
  #requireWay({ spec, path }: ArchivedLog): boolean {
    const { directory } = this.#deps
    return missingStep(wayTo(spec, 'archive') ?? { workspace: directory, path: relative(directory, path) }) === undefined
  }
}

function rank({ stream }: ArchivedFile): number {
  const at = order.indexOf(stream)
  return at < 0 ? order.length : at
}

async function look(path: string): Promise<Stats | undefined> {
  try {
    return await files.lstat(path)
  } catch (error) {
    if (errno(error) === 'ENOENT' || errno(error) === 'ENOTDIR') return undefined
    throw error
  }
}

async function sizeOfFile(path: string): Promise<number | undefined> {
  const stat = await look(path)
  return stat?.isFile() ? stat.size : undefined
}

/** Of the files right in it; undefined where there is no such folder. */
async function bytesIn(folder: string): Promise<number | undefined> {
  const stat = await look(folder)
  if (!stat?.isDirectory()) return stat?.size
  let bytes = 0
  for (const name of await namesIn(folder)) bytes += (await sizeOfFile(join(folder, name))) ?? 0
  return bytes
}

/** Another removal may have been faster. */
async function namesIn(folder: string): Promise<readonly string[]> {
  try {
    return await files.readdir(folder)
  } catch (error) {
    if (errno(error) === 'ENOENT') return []
    throw error
  }
}

function logsAmong(resources: readonly Recorded[]): readonly ArchivedLog[] {
  return resources
    .filter(({ kind }) => kind === 'log')
    .map(({ id, spec }) => {
      const path = archiveOf(spec as LogSpec)
      return { spec: spec as LogSpec, path, staging: stagingPath(path, id) }
    })
}
