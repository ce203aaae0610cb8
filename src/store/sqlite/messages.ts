import { DatabaseSync } from 'node:sqlite'
import type { Message } from '../../core/model/message.ts'
import type { NewMessage, Progress } from '../../core/ports/agents.ts'
import type { Clock } from '../../core/ports/clock.ts'
import { Database, toJson } from './database.ts'
import { explain } from './explain.ts'

/**
 * Saves messages together with the reading position of their log, in one transaction. This is the hot path, so it has its own
 * connection, which does not wait for the disk at every commit (`synchronous = NORMAL`). A crash of Ebb loses nothing. After a power
 * cut, messages and position are at the same earlier point, and the log is read again from there.
 */
export class MessageLog {
  readonly #file: string
  readonly #clock: Clock
  readonly #busyBudgetMs: number
  #database: Database | undefined

  constructor(file: string, clock: Clock, busyBudgetMs: number) {
    this.#file = file
    this.#clock = clock
    this.#busyBudgetMs = busyBudgetMs
  }

  async save(progress: readonly Progress[]): Promise<readonly (readonly Message[])[]> {
    const db = this.#open()
    return await db.retrying(() => {
      db.connection.exec('BEGIN IMMEDIATE')
      try {
        const at = this.#clock.wall()
        const saved = progress.map((one) => saveOne(db, one, at))
        db.connection.exec('COMMIT')
        return saved
      } catch (error) {
        if (db.connection.isTransaction) db.connection.exec('ROLLBACK')
        throw error
      }
    })
  }

  /** The connection is opened with the first message, because a run without agents does not need it. */
  #open(): Database {
    if (this.#database) return this.#database
    try {
      const connection = new DatabaseSync(this.#file, { timeout: 0 })
      connection.exec('PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = ON')
      this.#database = new Database(connection, this.#file, this.#clock, this.#busyBudgetMs)
      return this.#database
    } catch (error) {
      throw explain(error)
    }
  }

  async close(): Promise<void> {
    await this.#database?.close()
  }
}

/** Saves every line exactly once: nothing is saved unless the stored position is the one from which the caller has read. */
function saveOne(db: Database, { agentId, messages, position, result }: Progress, at: string): readonly Message[] {
  const [agent] = db.all('SELECT number, message_count FROM agent WHERE id = ?', agentId)
  if (!agent) return []
  const number = Number(agent.number)
  if (position && !move(db, number, position)) return []
  const insert = db.prepare(
    'INSERT INTO message (agent, sequence, id, type, role, content, raw, metadata, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)',
  )
  const first = Number(agent.message_count) + 1
  const saved = messages.map((message, index): Message => {
    insert.run(
      number,
      first + index,
      message.id,
      message.type,
      message.role ?? null,
      message.content,
      rawText(message),
      toJson(message.metadata),
      at,
    )
    return { ...message, agentId, sequenceNumber: first + index, createdAt: at }
  })
  if (saved.length > 0) db.run('UPDATE agent SET message_count = ? WHERE number = ?', first + saved.length - 1, number)
  if (result) db.run('UPDATE agent SET result = ? WHERE number = ?', JSON.stringify(result), number)
  return saved
}

function move(db: Database, agent: number, { stream, from, to }: NonNullable<Progress['position']>): boolean {
  const moved = db.run('UPDATE position SET offset = ? WHERE agent = ? AND stream = ? AND offset = ?', to, agent, stream, from)
  if (moved.changes === 1) return true
  if (from !== 0) return false
  return db.run('INSERT OR IGNORE INTO position (agent, stream, offset) VALUES (?, ?, ?)', agent, stream, to).changes === 1
}

function rawText(message: NewMessage): string | null {
  return toJson(message.raw)
}
