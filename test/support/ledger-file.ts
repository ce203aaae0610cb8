import { existsSync, readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'

/** Reads the state of a home from its files, without the engine. */

export function installationOf(home: string): string | undefined {
  try {
    return (JSON.parse(readFileSync(join(home, 'installation.json'), 'utf8')) as { id: string }).id
  } catch {
    return undefined
  }
}

/** Resources and incarnations that the ledger still records as open. */
export function openBooks(home: string): readonly string[] {
  const file = join(home, 'ebb.db')
  if (!existsSync(file)) return []
  const db = new DatabaseSync(file, { readOnly: true, timeout: 1_000 })
  try {
    // Version 0: a first start has not created the tables yet.
    if (db.prepare('PRAGMA user_version').get()?.user_version === 0) return []
    const resources = db.prepare("SELECT kind, name, state, error FROM resource WHERE state != 'released'").all()
    const incarnations = db.prepare('SELECT id FROM incarnation').all()
    return [
      ...resources.map(({ kind, name, state, error }) => `${String(state)} ${String(kind)} ${String(name)} ${String(error ?? '')}`.trim()),
      ...incarnations.map(({ id }) => `incarnation ${String(id)}`),
    ]
  } finally {
    db.close()
  }
}

/** Temp folders that the home links to, and symlinks whose target does not exist. */
export function tempFoldersOf(home: string): readonly string[] {
  const run = join(home, 'run')
  const names = existsSync(run) ? readdirSync(run).filter((name) => name.endsWith('.temp')) : []
  return names.flatMap((name) => {
    try {
      return [readlinkSync(join(run, name))]
    } catch (error) {
      // A recovery removed the link after readdir.
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
      throw error
    }
  })
}

/** Gates of the containments, live logs, and their pipes. */
export function leftInHome(home: string): readonly string[] {
  const inFolders = ['doors', 'logs', 'run'].flatMap((folder) =>
    existsSync(join(home, folder)) ? readdirSync(join(home, folder)).map((name) => `${folder}/${name}`) : [],
  )
  // Drafts of files that are renamed or linked into place.
  const drafts = existsSync(home) ? readdirSync(home).filter((name) => /\.json\.\d+$/.test(name)) : []
  return [...inFolders, ...drafts]
}
