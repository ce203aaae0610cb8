import { readFileSync } from 'node:fs'

/**
 * The number of commits in a database's write-ahead log, read from the file itself. The last frame of a transaction holds the size of the
 * database; other frames hold zero there (sqlite.org/fileformat2.html#walformat).
 */
export function commitsInWal(database: string): number {
  const wal = readFileSync(`${database}-wal`)
  if (wal.length === 0) return 0
  const frameBytes = 24 + wal.readUInt32BE(8)
  const salt = wal.subarray(16, 24)
  let commits = 0
  for (let at = 32; at + frameBytes <= wal.length && wal.subarray(at + 8, at + 16).equals(salt); at += frameBytes) {
    if (wal.readUInt32BE(at + 4) !== 0) commits += 1
  }
  return commits
}
