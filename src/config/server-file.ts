import { existsSync, readFileSync, renameSync, unlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { errno } from '../core/model/errors.ts'

/** By which the other commands find the server of a home; for its owner's eyes only, because it may hold the token. */
export interface ServerFile {
  readonly url: string
  readonly pid: number
  readonly token?: string
  /** The file of its records, unless it is the one of the home. */
  readonly store?: string
}

const fileIn = (home: string): string => join(home, 'server.json')

export function writeServerFile(home: string, content: ServerFile): void {
  const draft = `${fileIn(home)}.${process.pid}`
  writeFileSync(draft, `${JSON.stringify(content)}\n`, { mode: 0o600 })
  renameSync(draft, fileIn(home))
}

export function readServerFile(home: string): ServerFile | undefined {
  try {
    const content = JSON.parse(readFileSync(fileIn(home), 'utf8')) as Partial<ServerFile>
    return typeof content.url === 'string' && typeof content.pid === 'number' ? (content as ServerFile) : undefined
  } catch {
    return undefined
  }
}

/** Where the server of a home keeps its records, or kept them until it was killed; undefined when that is in the home, or gone. */
export function storeOfServer(home: string): string | undefined {
  const store = readServerFile(home)?.store
  return typeof store === 'string' && existsSync(store) ? store : undefined
}

/** Ours only: a server that came after us may have written its own. */
export function removeServerFile(home: string): void {
  if (readServerFile(home)?.pid !== process.pid) return
  try {
    unlinkSync(fileIn(home))
  } catch (error) {
    if (errno(error) !== 'ENOENT') throw error
  }
}
