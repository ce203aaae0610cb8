import { lstatSync, readdirSync, type Stats } from 'node:fs'
import { isAbsolute, join } from 'node:path'
import { errno, sentence } from '../../core/model/errors.ts'
import type { Effects } from '../../core/ports/effects.ts'
import { nextTurn } from '../../core/ports/turn.ts'
import { inFolder } from '../../host/path.ts'
import type { Leftover, LeftoverEnd } from '../judgement/leftover.ts'
import { type FileFact, type FilesFact, judgeFiles } from '../judgement/leftover-files.ts'
import type { ProcessFact } from '../judgement/process-fact.ts'
import { openFiles } from './open-files.ts'
import { namesIn, seesAllProcesses, tryRead } from './proc-facts.ts'
import { agentsIn } from './processes.ts'

/** Where to search for files that killed agents leave. Only files of this user count, and no symlink is followed. */
export interface FolderPlace {
  readonly temp: string
  readonly environment: Readonly<Record<string, string>>
  /** Tests restrict the search to their own agents. */
  readonly only?: ((pid: number) => boolean) | undefined
}

/** Measuring a folder ends after this many entries. Its size is then a lower bound. */
const maxEntries = 20_000

/**
 * Finds the files and folders that killed agents left. `table` lists the processes that will still run: all except the leftovers that will
 * be ended.
 */
export async function findFolders(place: FolderPlace, table: ReadonlyMap<number, ProcessFact>): Promise<readonly Leftover[]> {
  const facts = [...(await temporary(place.temp)), ...snapshots(place.environment)].filter(({ files }) => files.length > 0)
  if (facts.length === 0) return []
  const open = await openFiles(table, new Set(), [...new Set(facts.flatMap(({ files }) => files.map(({ path }) => path)))])
  const agents = agentsIn(table)
    .filter(({ pid }) => place.only?.(pid) ?? true)
    .map(({ pid, program }) => ({ program, startedAtMs: table.get(pid)?.startedAtMs ?? 0 }))
  const scene = { agents, open: open.paths, isPartial: open.unreadable.length > 0 || !seesAllProcesses(), nowMs: Date.now() }
  return facts.flatMap((fact) => judgeFiles(fact, scene) ?? [])
}

async function temporary(temp: string): Promise<readonly FilesFact[]> {
  const names = namesIn(temp) ?? []
  const uid = process.getuid?.() ?? 0
  const own = join(temp, `claude-${uid}`)
  const folders = [
    ...names
      .filter((name) => name.startsWith('gemini-shell-'))
      .map((name) => ['gemini', 'temporary shell files', join(temp, name)] as const),
    ...(isOwnFolder(own) ? tasksBelow(own, 3) : []).map((path) => ['claude', 'tool output', path] as const),
  ]
  const found: FilesFact[] = []
  for (const [program, what, path] of folders) {
    const stat = ownStat(path)
    if (!stat?.isDirectory() && !stat?.isFile()) continue
    const file = stat.isFile() ? fileOf(path, stat) : await measured(path)
    found.push({ place: path, isFolder: true, what: `${what} of ${program}`, program, files: [file] })
  }
  const places = names.filter((name) => /^claude-[0-9a-f]{4,}-cwd$/.test(name)).map((name) => join(temp, name))
  return [...found, filesFact(temp, 'working directory notes of claude', 'claude', places)]
}

/** The folders `claude-UID/PROJECT/SESSION/tasks`, in which claude collects the output of its tools. */
function tasksBelow(folder: string, depth: number): readonly string[] {
  return (namesIn(folder) ?? []).flatMap((name) => {
    const path = join(folder, name)
    if (!isOwnFolder(path)) return []
    if (name === 'tasks') return [path]
    return depth > 1 ? tasksBelow(path, depth - 1) : []
  })
}

function snapshots({ HOME = '', CLAUDE_CONFIG_DIR, CODEX_HOME }: Readonly<Record<string, string>>): readonly FilesFact[] {
  const folders = [
    ['claude', join(CLAUDE_CONFIG_DIR || join(HOME, '.claude'), 'shell-snapshots'), /^snapshot-.+\.sh$/],
    ['codex', join(CODEX_HOME || join(HOME, '.codex'), 'shell_snapshots'), /.\.sh$/],
  ] as const
  return folders
    .filter(([, folder]) => isAbsolute(folder) && isOwnFolder(folder))
    .map(([program, folder, pattern]) => {
      const paths = (namesIn(folder) ?? []).filter((name) => pattern.test(name)).map((name) => join(folder, name))
      return filesFact(folder, `shell snapshots of ${program}`, program, paths)
    })
}

function filesFact(place: string, what: string, program: string, paths: readonly string[]): FilesFact {
  const files = paths.flatMap((path) => {
    const stat = ownStat(path)
    return stat?.isFile() ? [fileOf(path, stat)] : []
  })
  return { place, isFolder: false, what, program, files }
}

const blockBytes = 512

const fileOf = (path: string, stat: Stats): FileFact => ({ path, changedAtMs: stat.mtimeMs, sizeBytes: stat.blocks * blockBytes })

function ownStat(path: string): Stats | undefined {
  const stat = tryRead(() => lstatSync(path))
  return stat?.uid === process.getuid?.() ? stat : undefined
}

const isOwnFolder = (path: string): boolean => ownStat(path)?.isDirectory() ?? false

/** The total size of a folder, and the time of the last change in it. Names are read as bytes, because they need not be UTF-8. */
async function measured(folder: string): Promise<FileFact> {
  const queue: Buffer[] = [Buffer.from(folder)]
  let sizeBytes = 0
  let changedAtMs = 0
  let count = 0
  // The loop also visits the paths that it adds to the queue.
  for (const path of queue) {
    if (++count > maxEntries) break
    if (count % 500 === 0) await nextTurn()
    const stat = tryRead(() => lstatSync(path))
    if (!stat) continue
    sizeBytes += stat.blocks * blockBytes
    changedAtMs = Math.max(changedAtMs, stat.mtimeMs)
    const names = stat.isDirectory() ? tryRead(() => readdirSync(path, { encoding: 'buffer' })) : undefined
    for (const name of names ?? []) queue.push(inFolder(path, name))
  }
  return { path: folder, changedAtMs, sizeBytes }
}

/**
 * Removes the files of a leftover. `leftover` is the result of a new search. `paths` are those of its paths that had been shown to the
 * user.
 */
export async function endFiles(
  leftover: Leftover,
  paths: readonly string[],
  effects: Pick<Effects, 'removeFolder' | 'unlink'>,
): Promise<Pick<LeftoverEnd, 'outcome' | 'steps' | 'says'>> {
  const began = performance.now()
  const problems: string[] = []
  for (const path of paths) {
    try {
      const stat = ownStat(path)
      if (stat?.isDirectory()) await effects.removeFolder(path)
      else if (stat?.isFile()) effects.unlink(path)
    } catch (error) {
      if (errno(error) !== 'ENOENT') problems.push(sentence(error))
    }
  }
  const steps = [{ step: 'remove', took: Math.round(performance.now() - began) }] as const
  const left = paths.filter((path) => tryRead(() => lstatSync(path)) !== undefined)
  if (left.length > 0) return { outcome: 'left', steps, says: problems[0] ?? `${left[0]} still exists.` }
  return {
    outcome: 'gone',
    steps,
    says: leftover.paths.length === 1 ? 'It no longer exists.' : `None of the ${paths.length} files exists any more.`,
  }
}
