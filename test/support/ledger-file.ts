import { existsSync, readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'

/** What a home says about itself, read from its files without the engine's help. */

export function installationOf(home: string): string | undefined {
  try {
    return (JSON.parse(readFileSync(join(home, 'installation.json'), 'utf8')) as { id: string }).id
  } catch {
    return undefined
  }
}

/** Resources and incarnations that the ledger still has on its books. */
export function openBooks(home: string): readonly string[] {
  const file = join(home, 'ebb.db')
  if (!existsSync(file)) return []
  const db = new DatabaseSync(file, { readOnly: true, timeout: 1_000 })
  try {
    // A first start may be about to make the tables.
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

/** Temp folders that the home still points to, and pointers that lead nowhere. */
export function tempFoldersOf(home: string): readonly string[] {
  const run = join(home, 'run')
  const names = existsSync(run) ? readdirSync(run).filter((name) => name.endsWith('.temp')) : []
  return names.flatMap((name) => {
    try {
      return [readlinkSync(join(run, name))]
    } catch (error) {
      // A recovery took it away between the two looks.
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
      throw error
    }
  })
}

/** Doors of the containments, and live logs with their pipes. */
export function leftInHome(home: string): readonly string[] {
  return ['doors', 'logs', 'run'].flatMap((folder) =>
    existsSync(join(home, folder)) ? readdirSync(join(home, folder)).map((name) => `${folder}/${name}`) : [],
  )
}
