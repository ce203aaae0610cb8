import type { DatabaseSync, SQLInputValue, StatementSync } from 'node:sqlite'
import { EbbError } from '../../domain/errors.ts'
import type { Report } from '../../domain/report.ts'
import { renew, type Wish } from '../../domain/scope.ts'
import type { Clock } from '../../ports/clock.ts'
import type { Books, IncarnationRecord, Ledger, NewIntent, NewScope, Outcome, Settlement, Sighting } from '../../ports/ledger.ts'
import { explain } from './explain.ts'
import { GroupCommit } from './group-commit.ts'
import { openDatabase } from './open.ts'
import { retryWhileBusy } from './retry.ts'
import { type Row, toIncarnation, toResource, toScope } from './rows.ts'

/** How long a write waits for another process's transaction: those are a few fsyncs long, so this is a locked file. */
const defaultBusyBudgetMs = 5_000

/** The audit trail keeps this many reports. */
const reportsKept = 1_000

export interface SqliteOptions {
  readonly file: string
  readonly clock: Clock
  readonly busyBudgetMs?: number
}

/** The ledger in one SQLite file, shared by every supervisor of a home. */
export async function openSqliteLedger({ file, clock, busyBudgetMs = defaultBusyBudgetMs }: SqliteOptions): Promise<Ledger> {
  return new SqliteLedger(await openDatabase(file, clock, busyBudgetMs), clock, busyBudgetMs)
}

class SqliteLedger implements Ledger {
  readonly #db: DatabaseSync
  readonly #clock: Clock
  readonly #busyBudgetMs: number
  readonly #commits: GroupCommit
  readonly #statements = new Map<string, StatementSync>()

  constructor(db: DatabaseSync, clock: Clock, busyBudgetMs: number) {
    this.#db = db
    this.#clock = clock
    this.#busyBudgetMs = busyBudgetMs
    this.#commits = new GroupCommit(db, clock, busyBudgetMs)
  }

  register(record: IncarnationRecord, host?: NewScope): Promise<void> {
    return this.#commits.write(() => {
      const [server] = record.role === 'server' ? this.#all("SELECT * FROM incarnation WHERE role = 'server' AND id != ?", record.id) : []
      if (server) throw serverRunning(toIncarnation(server))
      this.#insertIncarnation(record, host)
    })
  }

  unseatServer(dead: string, record: IncarnationRecord, host?: NewScope): Promise<boolean> {
    return this.#commits.write(() => {
      // The dead one keeps its books for the recovery; only the seat is taken.
      const { changes } = this.#run("UPDATE incarnation SET role = 'command', address = NULL WHERE id = ? AND role = 'server'", dead)
      if (changes === 0) return false
      this.#insertIncarnation(record, host)
      return true
    })
  }

  #insertIncarnation(record: IncarnationRecord, host: NewScope | undefined): void {
    const { identity } = record
    if (host) this.#insertScope(host)
    this.#run(
      `INSERT OR REPLACE INTO incarnation (id, installation, boot_id, pid_namespace, pid, start_time, role, address, claimed_by, registered_at)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      record.id,
      record.installation,
      identity.bootId,
      identity.pidNamespace,
      identity.pid,
      identity.startTime,
      record.role,
      record.address ?? null,
      record.claimedBy ?? null,
      record.registeredAt,
    )
  }

  async incarnations(): Promise<readonly IncarnationRecord[]> {
    return (await this.#read('SELECT * FROM incarnation ORDER BY registered_at')).map(toIncarnation)
  }

  claim(id: string, by: string, seenClaim: string | undefined): Promise<boolean> {
    return this.#commits.write(
      () => this.#run('UPDATE incarnation SET claimed_by = ? WHERE id = ? AND claimed_by IS ?', by, id, seenClaim ?? null).changes === 1,
    )
  }

  retire(id: string): Promise<boolean> {
    return this.#commits.write(() => {
      const [open] = this.#all(
        `SELECT 1 FROM resource JOIN scope ON scope.id = scope_id WHERE scope.incarnation = ? AND resource.state != 'released'
         UNION ALL SELECT 1 FROM scope WHERE incarnation = ? AND kind != 'host' AND state != 'closed' LIMIT 1`,
        id,
        id,
      )
      if (open) return false
      // With the host scope go the closed ones below it; the audit trail is in the reports.
      this.#run('DELETE FROM scope WHERE incarnation = ?', id)
      this.#run('DELETE FROM incarnation WHERE id = ?', id)
      return true
    })
  }

  openScope(scope: NewScope): Promise<void> {
    return this.#commits.write(() => {
      if (scope.parentId !== undefined) this.#requireOpen(scope.parentId)
      this.#insertScope(scope)
    })
  }

  #insertScope(scope: NewScope): void {
    const [existing] = this.#all('SELECT state FROM scope WHERE id = ?', scope.id)
    if (existing) throw new EbbError('scope_closed', `Scope ${scope.id} exists already and is ${String(existing.state)}; use another id.`)
    this.#run(
      "INSERT INTO scope (id, kind, parent_id, incarnation, state) VALUES (?, ?, ?, ?, 'open')",
      scope.id,
      scope.kind,
      scope.parentId ?? null,
      scope.incarnation,
    )
  }

  #requireOpen(scopeId: string): void {
    const [scope] = this.#all('SELECT state FROM scope WHERE id = ?', scopeId)
    if (scope?.state !== 'open')
      throw new EbbError('scope_closed', `Scope ${scopeId} is ${String(scope?.state ?? 'gone')} and takes nothing in; open a new one.`)
  }

  intend(scopeId: string, intents: readonly NewIntent[]): Promise<void> {
    return this.#commits.write(() => {
      this.#requireOpen(scopeId)
      for (const intent of intents) this.#insertResource('INSERT', { ...intent, scopeId }, 'intended')
    })
  }

  #insertResource(insert: 'INSERT' | 'INSERT OR REPLACE', intent: NewIntent, state: 'intended' | 'held'): void {
    const at = this.#clock.wall()
    this.#run(
      `${insert} INTO resource (id, scope_id, incarnation, kind, name, spec, detail, depends_on, on_loss, state, intended_at, held_at)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      intent.id,
      intent.scopeId,
      intent.incarnation,
      intent.kind,
      intent.name,
      JSON.stringify(intent.spec ?? null),
      toJson(intent.detail),
      JSON.stringify(intent.dependsOn),
      intent.onLoss,
      state,
      at,
      state === 'held' ? at : null,
    )
  }

  record(resourceId: string, detail: unknown): Promise<void> {
    return this.#commits.write(() => {
      this.#run('UPDATE resource SET detail = ? WHERE id = ?', toJson(detail), resourceId)
    })
  }

  hold(held: readonly { readonly resourceId: string; readonly detail?: unknown }[]): Promise<void> {
    return this.#commits.write(() => {
      for (const { resourceId, detail } of held) {
        // A close that began meanwhile goes on with it; then only the detail is news.
        this.#run(
          `UPDATE resource SET detail = COALESCE(?, detail), held_at = ?,
             state = CASE WHEN state != 'intended' THEN state
                          WHEN (SELECT state FROM scope WHERE id = scope_id) = 'open' THEN 'held' ELSE 'closing' END
           WHERE id = ?`,
          toJson(detail),
          this.#clock.wall(),
          resourceId,
        )
      }
    })
  }

  adopt(scopeId: string, intent: NewIntent): Promise<void> {
    return this.#commits.write(() => {
      const [scope] = this.#all('SELECT 1 FROM scope WHERE id = ?', scopeId)
      if (!scope) throw new EbbError('scope_closed', `Scope ${scopeId} is gone and takes nothing in.`)
      this.#insertResource('INSERT OR REPLACE', { ...intent, scopeId }, 'held')
    })
  }

  beginClose(scopeId: string, wish: Wish): Promise<void> {
    return this.#commits.write(() => {
      for (const row of this.#all(`${treeOf} SELECT scope.* FROM scope JOIN tree USING (id) WHERE state != 'closed'`, scopeId)) {
        const scope = toScope(row)
        this.#run("UPDATE scope SET state = 'closing', wish = ? WHERE id = ?", JSON.stringify(renew(scope.wish, wish)), scope.id)
      }
      this.#run(`${treeOf} UPDATE resource SET state = 'closing' WHERE state = 'held' AND scope_id IN (SELECT id FROM tree)`, scopeId)
    })
  }

  settle(settlement: Settlement): Promise<void> {
    return this.#commits.write(() => {
      for (const outcome of settlement.outcomes) this.#settleOne(outcome)
      for (const id of settlement.closedScopeIds) this.#run("UPDATE scope SET state = 'closed' WHERE id = ?", id)
      for (const id of settlement.forgottenScopeIds) this.#run('DELETE FROM scope WHERE id = ?', id)
      if (!settlement.report) return
      this.#run('INSERT INTO report (id, body) VALUES (?, ?)', settlement.report.id, JSON.stringify(settlement.report.body))
      this.#run('DELETE FROM report WHERE sequence <= (SELECT max(sequence) FROM report) - ?', reportsKept)
    })
  }

  #settleOne(outcome: Outcome): void {
    this.#run(
      'UPDATE resource SET state = ?, attempts = ?, proof = ?, error = ?, released_at = ? WHERE id = ?',
      outcome.state,
      outcome.attempts,
      toJson(outcome.proof),
      outcome.error ?? null,
      outcome.state === 'released' ? this.#clock.wall() : null,
      outcome.resourceId,
    )
  }

  async books(incarnation?: string): Promise<Books> {
    const where = incarnation === undefined ? '' : 'WHERE scope.incarnation = ?'
    const values = incarnation === undefined ? [] : [incarnation]
    // By the scope: what a reaper adopted was made by another incarnation, and is now the reaper's to answer for.
    const held = `SELECT resource.* FROM resource JOIN scope ON scope.id = scope_id ${where} ORDER BY intended_at, resource.id`
    return {
      scopes: (await this.#read(`SELECT * FROM scope ${where}`, ...values)).map(toScope),
      resources: (await this.#read(held, ...values)).map(toResource),
    }
  }

  async reports(limit: number): Promise<readonly { readonly id: string; readonly body: Report }[]> {
    const rows = await this.#read('SELECT id, body FROM report ORDER BY sequence DESC LIMIT ?', limit)
    return rows.map((row) => ({ id: String(row.id), body: JSON.parse(String(row.body)) as Report }))
  }

  sight(kind: string, name: string, bootId: string, nowMs: number): Promise<Sighting> {
    return this.#commits.write(() => {
      // After a reboot the age starts again: the monotonic clock did.
      this.#run('DELETE FROM sighting WHERE kind = ? AND name = ? AND boot_id != ?', kind, name, bootId)
      this.#run(
        `INSERT INTO sighting (kind, name, boot_id, first_seen_ms, count) VALUES (?, ?, ?, ?, 1)
         ON CONFLICT (kind, name) DO UPDATE SET count = count + 1`,
        kind,
        name,
        bootId,
        nowMs,
      )
      const [row] = this.#all('SELECT * FROM sighting WHERE kind = ? AND name = ?', kind, name)
      return { kind, name, bootId, firstSeenMs: Number(row?.first_seen_ms), count: Number(row?.count) }
    })
  }

  async forgetSightings(kept: ReadonlySet<string>): Promise<void> {
    const gone = (await this.#read('SELECT kind, name FROM sighting')).filter((row) => !kept.has(`${String(row.kind)} ${String(row.name)}`))
    if (gone.length === 0) return
    await this.#commits.write(() => {
      for (const row of gone) this.#run('DELETE FROM sighting WHERE kind = ? AND name = ?', String(row.kind), String(row.name))
    })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#commits.idle()
    if (this.#db.isOpen) this.#db.close()
  }

  #prepare(sql: string): StatementSync {
    let statement = this.#statements.get(sql)
    if (!statement) {
      statement = this.#db.prepare(sql)
      this.#statements.set(sql, statement)
    }
    return statement
  }

  /** A reader of a WAL database meets a lock only while another process rebuilds the index; then it waits its turn. */
  #read(sql: string, ...values: SQLInputValue[]): Promise<readonly Row[]> {
    return retryWhileBusy(this.#clock, this.#busyBudgetMs, () => this.#all(sql, ...values)).catch((error: unknown) => {
      throw explain(error)
    })
  }

  #run(sql: string, ...values: SQLInputValue[]): { changes: number | bigint } {
    return this.#prepare(sql).run(...values)
  }

  #all(sql: string, ...values: SQLInputValue[]): readonly Row[] {
    return this.#prepare(sql).all(...values)
  }
}

const treeOf = 'WITH RECURSIVE tree (id) AS (VALUES (?) UNION SELECT scope.id FROM scope JOIN tree ON scope.parent_id = tree.id)'

function toJson(value: unknown): string | null {
  return value === undefined ? null : JSON.stringify(value)
}

function serverRunning(server: IncarnationRecord): EbbError {
  return new EbbError(
    'server_running',
    `A server already runs on this home: pid ${server.identity.pid}, ${server.address ?? 'address unknown'}. Use that one, or another --home.`,
    { details: server },
  )
}
