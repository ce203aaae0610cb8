import { type CloseRequest, renew } from '../../core/model/close-request.ts'
import { EbbError } from '../../core/model/errors.ts'
import type { Report } from '../../core/model/report.ts'
import type { Resource } from '../../core/model/resource.ts'
import type {
  Committed,
  IncarnationRecord,
  Ledger,
  LedgerContents,
  NewIntent,
  NewScope,
  Opening,
  Outcome,
  Settlement,
  Sighting,
  StoredReport,
  Survives,
} from '../../core/ports/ledger.ts'
import { endAgents, forgetAgent } from './agent-ends.ts'
import { type Database, toJson } from './database.ts'
import { toIncarnation, toResource, toScope } from './rows.ts'

/** The number of reports that are kept. */
const reportsKept = 1_000

/** The ledger in one SQLite file, which all supervisors of a home share. */
export class SqliteLedger implements Ledger {
  readonly #db: Database
  readonly #closeOthers: () => Promise<void>

  constructor(database: Database, closeOthers: () => Promise<void>) {
    this.#db = database
    this.#closeOthers = closeOthers
  }

  register(record: IncarnationRecord, host?: NewScope): Promise<void> {
    return this.#db.write(() => {
      const [server] =
        record.role === 'server' ? this.#db.all("SELECT * FROM incarnation WHERE role = 'server' AND id != ?", record.id) : []
      if (server) throw serverRunning(toIncarnation(server))
      this.#register(record, host)
    }, 'crash')
  }

  unseatServer(dead: string, record: IncarnationRecord, host?: NewScope): Promise<boolean> {
    return this.#db.write(() => {
      // The dead server keeps its scopes and resources for the recovery; it only loses the server role.
      const { changes } = this.#db.run("UPDATE incarnation SET role = 'command', address = NULL WHERE id = ? AND role = 'server'", dead)
      if (changes === 0) return false
      this.#register(record, host)
      return true
    }, 'crash')
  }

  #register(record: IncarnationRecord, host: NewScope | undefined): void {
    if (host) this.#insertScope(host)
    this.#insertIncarnation('INSERT OR REPLACE', record)
  }

  #insertIncarnation(insert: 'INSERT OR REPLACE' | 'INSERT OR IGNORE', record: IncarnationRecord): void {
    const { identity } = record
    this.#db.run(
      `${insert} INTO incarnation (id, installation, boot_id, pid_namespace, pid, start_time, role, address, claimed_by, registered_at)
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
    return (await this.#db.read('SELECT * FROM incarnation ORDER BY registered_at')).map(toIncarnation)
  }

  claim(id: string, by: string, seenClaim: string | undefined): Promise<boolean> {
    return this.#db.write(
      () => this.#db.run('UPDATE incarnation SET claimed_by = ? WHERE id = ? AND claimed_by IS ?', by, id, seenClaim ?? null).changes === 1,
      'crash',
    )
  }

  unclaim(id: string, by: string): Promise<void> {
    return this.#db.write(() => {
      this.#db.run('UPDATE incarnation SET claimed_by = NULL WHERE id = ? AND claimed_by = ?', id, by)
    }, 'crash')
  }

  retire(id: string): Promise<boolean> {
    return this.#db.write(() => {
      const [open] = this.#db.all(
        `SELECT 1 FROM resource JOIN scope ON scope.id = scope_id WHERE scope.incarnation = ? AND resource.state != 'released'
         UNION ALL SELECT 1 FROM scope WHERE incarnation = ? AND kind != 'host' AND state != 'closed' LIMIT 1`,
        id,
        id,
      )
      if (open) return false
      // The host scope is deleted with the closed scopes below it, except for those of agents whose rows still exist.
      this.#db.run('UPDATE scope SET parent_id = NULL WHERE incarnation = ? AND id IN (SELECT id FROM agent)', id)
      this.#db.run('DELETE FROM scope WHERE incarnation = ? AND id NOT IN (SELECT id FROM agent)', id)
      this.#db.run('DELETE FROM incarnation WHERE id = ?', id)
      return true
    }, 'crash')
  }

  open(opening: Opening): Promise<void> {
    return this.#db.write(() => this.#open(opening), hasRows(opening) ? 'power-cut' : 'crash')
  }

  #open({ incarnation, scopes, rows = [] }: Opening): void {
    if (incarnation) this.#insertIncarnation('INSERT OR IGNORE', incarnation)
    for (const scope of scopes) if (!this.#isOpen(scope)) this.#openScope(scope)
    for (const { insert } of rows) insert()
  }

  #isOpen(scope: NewScope): boolean {
    const [known] = this.#db.all('SELECT * FROM scope WHERE id = ?', scope.id).map(toScope)
    return (
      known?.state === 'open' && known.kind === scope.kind && known.parentId === scope.parentId && known.incarnation === scope.incarnation
    )
  }

  #openScope(scope: NewScope): void {
    if (scope.parentId !== undefined) this.#requireOpen(scope.parentId)
    this.#insertScope(scope)
  }

  #insertScope(scope: NewScope): void {
    const [existing] = this.#db.all('SELECT state FROM scope WHERE id = ?', scope.id)
    if (existing) throw new EbbError('scope_closed', `Scope ${scope.id} exists already and is ${String(existing.state)}; use another id.`)
    this.#db.run(
      "INSERT INTO scope (id, kind, parent_id, incarnation, state) VALUES (?, ?, ?, ?, 'open')",
      scope.id,
      scope.kind,
      scope.parentId ?? null,
      scope.incarnation,
    )
  }

  #requireOpen(scopeId: string): void {
    const [scope] = this.#db.all('SELECT state FROM scope WHERE id = ?', scopeId)
    if (scope?.state !== 'open')
      throw new EbbError('scope_closed', `Scope ${scopeId} is ${String(scope?.state ?? 'gone')} and takes nothing in; open a new one.`)
  }

  async intend(
    scopeId: string,
    intents: readonly NewIntent[],
    survives: Survives = 'power-cut',
    opening: Opening = { scopes: [] },
  ): Promise<Committed> {
    const { committed, onDisk } = this.#db.writeAhead(
      () => {
        this.#open(opening)
        this.#requireOpen(scopeId)
        for (const intent of intents) this.#insertResource('INSERT', { ...intent, scopeId }, 'intended')
      },
      { survives, reachesDisk: hasRows(opening) },
    )
    await committed
    return { rowsStored: onDisk }
  }

  #insertResource(insert: 'INSERT' | 'INSERT OR REPLACE', intent: NewIntent, state: 'intended' | 'held'): void {
    const at = this.#db.clock.wall()
    this.#db.run(
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

  record(resourceId: string, detail: unknown, survives: Survives = 'power-cut'): Promise<void> {
    return this.#db.write(() => {
      this.#db.run('UPDATE resource SET detail = ? WHERE id = ?', toJson(detail), resourceId)
    }, survives)
  }

  hold(held: readonly { readonly resourceId: string; readonly detail?: unknown }[]): Promise<void> {
    return this.#db.write(() => {
      for (const { resourceId, detail } of held) {
        // A resource that was `intended` becomes `held`, or `closing` during a close. A resource in any other state keeps that state, and
        // only its detail and time are updated.
        this.#db.run(
          `UPDATE resource SET detail = COALESCE(?, detail), held_at = ?,
             state = CASE WHEN state != 'intended' THEN state
                          WHEN (SELECT state FROM scope WHERE id = scope_id) = 'open' THEN 'held' ELSE 'closing' END
           WHERE id = ?`,
          toJson(detail),
          this.#db.clock.wall(),
          resourceId,
        )
      }
    }, 'crash')
  }

  adopt(scopeId: string, intent: NewIntent): Promise<void> {
    return this.#db.write(() => {
      const [scope] = this.#db.all('SELECT 1 FROM scope WHERE id = ?', scopeId)
      if (!scope) throw new EbbError('scope_closed', `Scope ${scopeId} is gone and takes nothing in.`)
      this.#insertResource('INSERT OR REPLACE', { ...intent, scopeId }, 'held')
    }, 'crash')
  }

  inherit(scopes: readonly { readonly id: string; readonly parentId: string }[], incarnation: string): Promise<void> {
    return this.#db.write(() => {
      for (const { id, parentId } of scopes) this.#inherit(id, parentId, incarnation)
    }, 'crash')
  }

  #inherit(id: string, parentId: string, incarnation: string): void {
    this.#requireOpen(parentId)
    this.#db.run('UPDATE scope SET incarnation = ?, parent_id = ? WHERE id = ?', incarnation, parentId, id)
    this.#db.run('UPDATE agent SET incarnation = ? WHERE id = ?', incarnation, id)
  }

  reopen({ id, parentId, incarnation }: NewScope & { readonly parentId: string }, closeRequest: CloseRequest): Promise<void> {
    return this.#db.write(() => {
      const { changes } = this.#db.run(
        "UPDATE scope SET state = 'closing', wish = ? WHERE id = ? AND state = 'closed'",
        JSON.stringify(closeRequest),
        id,
      )
      if (changes === 0) throw new EbbError('scope_closed', `Scope ${id} cannot be closed again: it is not closed, or does not exist.`)
      this.#inherit(id, parentId, incarnation)
    }, 'power-cut')
  }

  condemn(
    agentIds: readonly string[],
    host: { readonly id: string; readonly incarnation: string },
    closeRequest: CloseRequest,
  ): Promise<void> {
    return this.#db.write(() => {
      for (const id of agentIds) {
        const { changes } = this.#db.run(
          "UPDATE scope SET state = 'closing', wish = ?, parent_id = ?, incarnation = ? WHERE id = ? AND state = 'closed'",
          JSON.stringify(closeRequest),
          host.id,
          host.incarnation,
          id,
        )
        if (changes > 0) this.#db.run('UPDATE agent SET incarnation = ? WHERE id = ?', host.incarnation, id)
      }
    }, 'power-cut')
  }

  beginClose(scopeId: string, closeRequest: CloseRequest, survives: Survives = 'crash'): Promise<void> {
    return this.#db.write(() => {
      for (const row of this.#db.all(`${treeOf} SELECT scope.* FROM scope JOIN tree USING (id) WHERE state != 'closed'`, scopeId)) {
        const scope = toScope(row)
        this.#db.run(
          "UPDATE scope SET state = 'closing', wish = ? WHERE id = ?",
          JSON.stringify(renew(scope.closeRequest, closeRequest)),
          scope.id,
        )
      }
      this.#db.run(`${treeOf} UPDATE resource SET state = 'closing' WHERE state = 'held' AND scope_id IN (SELECT id FROM tree)`, scopeId)
    }, survives)
  }

  settle(settlement: Settlement): Promise<void> {
    // A change of an agent's row may have been reported to a client, so it must survive a power cut. The outcomes of resources need not,
    // because resources are observed again.
    let hasTouchedAgents = settlement.agents !== undefined && settlement.agents.ended.length + settlement.agents.stuckIds.length > 0
    return this.#db.write(
      () => {
        for (const outcome of settlement.outcomes) this.#settleOne(outcome)
        for (const id of settlement.closedScopeIds) this.#db.run("UPDATE scope SET state = 'closed' WHERE id = ?", id)
        if (settlement.agents) endAgents(this.#db, settlement.agents)
        for (const id of settlement.forgottenScopeIds) if (forgetAgent(this.#db, id)) hasTouchedAgents = true
        for (const id of settlement.forgottenScopeIds) {
          // Agents below the forgotten scope that ended earlier keep their rows. Their scopes keep their resources, by which
          // archives are found.
          this.#db.run(`${treeOf} UPDATE scope SET parent_id = NULL WHERE id IN (SELECT id FROM tree) AND id IN (SELECT id FROM agent)`, id)
          this.#db.run('DELETE FROM scope WHERE id = ?', id)
        }
        if (settlement.report) this.#insertReport(settlement.report)
      },
      () => (hasTouchedAgents ? 'power-cut' : 'crash'),
    )
  }

  #insertReport({ id, body }: StoredReport): void {
    this.#db.run('INSERT INTO report (id, body) VALUES (?, ?)', id, JSON.stringify(body))
    this.#db.run('DELETE FROM report WHERE sequence <= (SELECT max(sequence) FROM report) - ?', reportsKept)
  }

  addReport(report: StoredReport): Promise<void> {
    return this.#db.write(() => this.#insertReport(report), 'crash')
  }

  #settleOne(outcome: Outcome): void {
    this.#db.run(
      'UPDATE resource SET state = ?, attempts = ?, proof = ?, error = ?, owed_since = ?, released_at = ? WHERE id = ?',
      outcome.state,
      outcome.attempts,
      toJson(outcome.proof),
      outcome.error ?? null,
      outcome.owedSince ?? null,
      outcome.state === 'released' ? (outcome.proof?.at ?? this.#db.clock.wall()) : null,
      outcome.resourceId,
    )
  }

  async contents(incarnation?: string, only?: 'open'): Promise<LedgerContents> {
    const values = incarnation === undefined ? [] : [incarnation]
    const ofIncarnation = incarnation === undefined ? 'TRUE' : 'scope.incarnation = ?'
    const isOpen = only === 'open' ? "resource.state != 'released'" : 'TRUE'
    const isUnfinished =
      only === 'open'
        ? "(state != 'closed' OR EXISTS (SELECT 1 FROM resource WHERE scope_id = scope.id AND resource.state != 'released'))"
        : 'TRUE'
    // The resources are filtered by the incarnation of their scope: a resource that a reaper adopted was created by another incarnation,
    // and now belongs to the reaper.
    const held = `SELECT resource.* FROM resource JOIN scope ON scope.id = scope_id
      WHERE ${ofIncarnation} AND ${isOpen} ORDER BY intended_at, resource.id`
    return {
      scopes: (await this.#db.read(`SELECT * FROM scope WHERE ${ofIncarnation} AND ${isUnfinished}`, ...values)).map(toScope),
      resources: (await this.#db.read(held, ...values)).map(toResource),
    }
  }

  async resources(scopeId: string): Promise<readonly Resource[]> {
    return (await this.#db.read('SELECT * FROM resource WHERE scope_id = ? ORDER BY intended_at, id', scopeId)).map(toResource)
  }

  async findReport(id: string): Promise<Report | undefined> {
    const [row] = await this.#db.read('SELECT body FROM report WHERE id = ?', id)
    return row && (JSON.parse(String(row.body)) as Report)
  }

  async reports(limit: number): Promise<readonly StoredReport[]> {
    const rows = await this.#db.read('SELECT id, body FROM report ORDER BY sequence DESC LIMIT ?', limit)
    return rows.map((row) => ({ id: String(row.id), body: JSON.parse(String(row.body)) as Report }))
  }

  async reportIds(limit: number): Promise<readonly string[]> {
    const rows = await this.#db.read('SELECT id FROM report ORDER BY sequence DESC LIMIT ?', limit)
    return rows.map(({ id }) => String(id))
  }

  sight(kind: string, name: string, bootId: string, nowMs: number): Promise<Sighting> {
    return this.#db.write(() => {
      // The monotonic clock restarts at a reboot, so the age of a sighting restarts, too.
      this.#db.run('DELETE FROM sighting WHERE kind = ? AND name = ? AND boot_id != ?', kind, name, bootId)
      this.#db.run(
        `INSERT INTO sighting (kind, name, boot_id, first_seen_ms, count) VALUES (?, ?, ?, ?, 1)
         ON CONFLICT (kind, name) DO UPDATE SET count = count + 1`,
        kind,
        name,
        bootId,
        nowMs,
      )
      const [row] = this.#db.all('SELECT * FROM sighting WHERE kind = ? AND name = ?', kind, name)
      return { kind, name, bootId, firstSeenMs: Number(row?.first_seen_ms), count: Number(row?.count) }
    }, 'crash')
  }

  async forgetSightings(kept: ReadonlySet<string>): Promise<void> {
    const gone = (await this.#db.read('SELECT kind, name FROM sighting')).filter(
      (row) => !kept.has(`${String(row.kind)} ${String(row.name)}`),
    )
    if (gone.length === 0) return
    await this.#db.write(() => {
      for (const row of gone) this.#db.run('DELETE FROM sighting WHERE kind = ? AND name = ?', String(row.kind), String(row.name))
    }, 'crash')
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#closeOthers()
    await this.#db.close()
  }
}

function hasRows({ rows = [] }: Opening): boolean {
  return rows.length > 0
}

const treeOf = 'WITH RECURSIVE tree (id) AS (VALUES (?) UNION SELECT scope.id FROM scope JOIN tree ON scope.parent_id = tree.id)'

function serverRunning(server: IncarnationRecord): EbbError {
  return new EbbError(
    'server_running',
    `A server already runs on this home: pid ${server.identity.pid}, ${server.address ?? 'address unknown'}. Use that one, or another --home.`,
    { details: server },
  )
}
