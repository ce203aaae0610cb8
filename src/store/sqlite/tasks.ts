import type { Inode } from '../../core/model/identity.ts'
import type { Priority, ProgressReport, Task } from '../../core/model/task.ts'
import type { Heard, TaskRecord, TaskStore } from '../../core/ports/tasks.ts'
import type { Database } from './database.ts'
import type { Row } from './rows.ts'

const isLiving = "completed_at IS NULL AND status NOT IN ('completed', 'failed', 'terminated')"

/** The rows of tasks, in the database file of the ledger. */
export class SqliteTasks implements TaskStore {
  readonly #db: Database

  constructor(database: Database) {
    this.#db = database
  }

  create(task: Task): Promise<void> {
    return this.#db.write(() => {
      this.#db.run(
        'INSERT INTO task (id, namespace, description, priority, base, workspace, cwd, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)',
        task.id,
        task.namespace,
        task.description,
        task.priority,
        task.base,
        task.workspace,
        task.cwd,
        task.createdAt,
      )
    })
  }

  async find(id: string): Promise<TaskRecord | undefined> {
    const [row] = await this.#db.read('SELECT * FROM task WHERE id = ?', id)
    return row && toTask(row)
  }

  async list({ namespace, limit }: { readonly namespace?: string; readonly limit: number }): Promise<readonly TaskRecord[]> {
    const where = namespace === undefined ? '' : 'WHERE namespace = ?'
    const values = namespace === undefined ? [] : [namespace]
    return (await this.#db.read(`SELECT * FROM task ${where} ORDER BY number DESC LIMIT ?`, ...values, limit)).map(toTask)
  }

  async count(ids: readonly string[]): Promise<ReadonlyMap<string, number>> {
    const rows = await this.#db.read(
      `SELECT task_id, count(*) AS active FROM agent WHERE task_id IN (SELECT value FROM json_each(?)) AND ${isLiving} GROUP BY task_id`,
      JSON.stringify(ids),
    )
    return new Map(rows.map((row) => [row.task_id as string, row.active as number]))
  }

  complete(id: string, at: string): Promise<void> {
    return this.#db.write(() => void this.#db.run('UPDATE task SET completed_at = COALESCE(completed_at, ?) WHERE id = ?', at, id))
  }

  countDeployed(id: string): Promise<void> {
    return this.#db.write(() => void this.#db.run('UPDATE task SET deployed = deployed + 1 WHERE id = ?', id))
  }

  keepProgress(agentId: string, progress: ProgressReport): Promise<void> {
    return this.#db.write(() => void this.#db.run('UPDATE agent SET progress = ? WHERE id = ?', JSON.stringify(progress), agentId))
  }

  countFinding(agentId: string): Promise<void> {
    return this.#db.write(() => void this.#db.run('UPDATE agent SET findings = findings + 1 WHERE id = ?', agentId))
  }

  async heard(taskId: string): Promise<ReadonlyMap<string, Heard>> {
    const rows = await this.#db.read(
      'SELECT id, progress, findings, token_hash IS NOT NULL AS can_report FROM agent WHERE task_id = ?',
      taskId,
    )
    return new Map(
      rows.map((row) => [
        row.id as string,
        {
          findings: row.findings as number,
          canReport: row.can_report === 1,
          ...(typeof row.progress === 'string' && { progress: JSON.parse(row.progress) as ProgressReport }),
        },
      ]),
    )
  }

  async tokenHolder(hash: string): Promise<string | undefined> {
    const [row] = await this.#db.read(`SELECT id FROM agent WHERE token_hash = ? AND ${isLiving}`, hash)
    return row && (row.id as string)
  }

  keepFolder(base: string, mark: Inode): Promise<void> {
    return this.#db.write(
      () =>
        void this.#db.run(
          'INSERT INTO folder (base, mark) VALUES (?, ?) ON CONFLICT (base) DO UPDATE SET mark = excluded.mark',
          base,
          JSON.stringify(mark),
        ),
    )
  }

  async findFolder(base: string): Promise<Inode | undefined> {
    const [row] = await this.#db.read('SELECT mark FROM folder WHERE base = ?', base)
    return row && (JSON.parse(row.mark as string) as Inode)
  }
}

/** Deletes the row of the task that this scope belongs to. */
export function forgetTask(db: Database, scopeId: string): void {
  const { changes } = db.run(
    "DELETE FROM task WHERE id IN (SELECT id FROM owner WHERE scope_id = ? AND kind = 'task' AND owner.namespace = task.namespace)",
    scopeId,
  )
  if (changes > 0) forgetFolders(db)
}

/**
 * Deletes the records of shared folders that no task uses. The last task has removed the folder itself, unless it contained other files.
 */
export function forgetFolders(db: Database): void {
  db.run('DELETE FROM folder WHERE NOT EXISTS (SELECT 1 FROM task WHERE task.base = folder.base)')
}

function toTask(row: Row): TaskRecord {
  return {
    id: row.id as string,
    namespace: row.namespace as string,
    description: row.description as string,
    priority: row.priority as Priority,
    base: row.base as string,
    workspace: row.workspace as string,
    cwd: row.cwd as string,
    createdAt: row.created_at as string,
    ...(typeof row.completed_at === 'string' && { completedAt: row.completed_at }),
    deployed: row.deployed as number,
  }
}
