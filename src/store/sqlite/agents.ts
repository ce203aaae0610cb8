import type { SQLInputValue } from 'node:sqlite'
import { EbbError } from '../../core/model/errors.ts'
import type { Message } from '../../core/model/message.ts'
import type { ScopeState } from '../../core/model/scope.ts'
import type {
  AgentChange,
  AgentFilter,
  AgentPage,
  AgentRecord,
  AgentStore,
  NewAgent,
  NewMessage,
  OwnerKind,
  OwnerRecord,
  Progress,
  StreamPosition,
  Totals,
} from '../../core/ports/agents.ts'
import type { PreparedRow } from '../../core/ports/prepared-row.ts'
import { forgetAgent } from './agent-ends.ts'
import { agentJson } from './agent-json.ts'
import { agentColumns, toAgent, toMessage, toRecord } from './agent-rows.ts'
import { type Database, toJson } from './database.ts'
import { MessageLog } from './messages.ts'
import type { Row } from './rows.ts'
import { forgetFolders } from './tasks.ts'

/** The number of messages that one transaction deletes: deleting a million at once would block the event loop for a second. */
const deletedAtOnce = 5_000

/** The size of a page in characters. A client that does not read its answer keeps two or three pages in memory, so pages are limited. */
const pageSize = 65_536

/** The rows of agents, their messages and their owners, in the database file of the ledger. */
export class SqliteAgents implements AgentStore {
  readonly #db: Database
  readonly #messages: MessageLog

  constructor(database: Database, file: string, busyBudgetMs: number) {
    this.#db = database
    this.#messages = new MessageLog(file, database.clock, busyBudgetMs)
  }

  newAgent(agent: NewAgent, prompt: NewMessage): PreparedRow {
    const insert = (): void => {
      this.#db.run(
        `INSERT INTO agent (id, name, type, placement, namespace, request_id, task_id, parent_agent_id, status, prompt, configuration,
           message_count, incarnation, created_at, token_hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'initializing', ?, ?, 1, ?, ?, ?)`,
        agent.id,
        agent.name ?? null,
        agent.type,
        agent.placement,
        agent.namespace,
        agent.requestId ?? null,
        agent.taskId ?? null,
        agent.parentAgentId ?? null,
        agent.prompt,
        JSON.stringify(agent.configuration),
        agent.incarnation,
        agent.createdAt,
        agent.tokenHash ?? null,
      )
      this.#db.run(
        `INSERT INTO message (agent, sequence, id, type, role, content, created_at)
         SELECT number, 1, ?, ?, ?, ?, ? FROM agent WHERE id = ?`,
        prompt.id,
        prompt.type,
        prompt.role ?? null,
        prompt.content,
        agent.createdAt,
        agent.id,
      )
    }
    return { insert }
  }

  change(agentId: string, change: AgentChange): Promise<void> {
    return this.#db.write(() => {
      this.#db.run(
        `UPDATE agent SET status = COALESCE(?, status), started_at = COALESCE(?, started_at), exit_code = COALESCE(?, exit_code),
           signal = COALESCE(?, signal), result = COALESCE(?, result), error = COALESCE(?, error)
         WHERE id = ? AND (status NOT IN ('completed', 'failed', 'terminated') AND completed_at IS NULL OR ? = 'stuck')`,
        change.status ?? null,
        change.startedAt ?? null,
        change.exit?.code ?? null,
        change.exit?.signal ?? null,
        toJson(change.result),
        toJson(change.error),
        agentId,
        change.status ?? null,
      )
    }, 'crash')
  }

  async find(agentId: string): Promise<AgentRecord | undefined> {
    const [row] = await this.#db.read(`SELECT ${agentColumns}, incarnation, result, report FROM agent WHERE id = ?`, agentId)
    return row && toRecord(row)
  }

  async list(filter: AgentFilter): Promise<AgentPage> {
    const { rows, ...next } = await this.#page(agentColumns, filter)
    return { agents: rows.map(toAgent), ...next }
  }

  async listJson(filter: AgentFilter): Promise<{ readonly json: string; readonly nextCursor?: string }> {
    const { rows, ...next } = await this.#page(`number, ${agentJson} AS json`, filter)
    return { json: `[${rows.map((row) => row.json as string).join(',')}]`, ...next }
  }

  async namespacesOf(agentIds: readonly string[]): Promise<ReadonlyMap<string, string>> {
    const wanted = JSON.stringify([...new Set(agentIds)])
    const rows = await this.#db.read('SELECT id, namespace FROM agent WHERE id IN (SELECT value FROM json_each(?))', wanted)
    return new Map(rows.map((row) => [String(row.id), String(row.namespace)]))
  }

  async #page(columns: string, filter: AgentFilter): Promise<{ readonly rows: readonly Row[]; readonly nextCursor?: string }> {
    const { conditions, values } = conditionsOf(filter)
    const found = await this.#db.read(
      `SELECT ${columns} FROM agent WHERE ${conditions.join(' AND ')} ORDER BY number DESC LIMIT ?`,
      ...values,
      // One row more than requested shows whether there is a next page. In SQLite a limit of -1 means none.
      filter.limit === undefined ? -1 : filter.limit + 1,
    )
    const rows = filter.limit === undefined ? found : found.slice(0, filter.limit)
    return { rows, ...(rows.length < found.length && { nextCursor: String(rows.at(-1)?.number) }) }
  }

  async remove(agentIds: readonly string[]): Promise<Totals & { readonly ids: ReadonlySet<string> }> {
    let trimmed = 0
    for (const id of agentIds) trimmed += await this.trim(id)
    return await this.#db.write(() => {
      const ids = new Set<string>()
      let messages = trimmed
      for (const id of agentIds) {
        const [row] = this.#db.all('SELECT message_count FROM agent WHERE id = ?', id)
        if (row) ids.add(id)
        messages += Number(row?.message_count ?? 0)
        forgetAgent(this.#db, id)
        this.#db.run('DELETE FROM scope WHERE id = ?', id)
      }
      return { agents: ids.size, messages, ids }
    })
  }

  async trim(agentId: string): Promise<number> {
    const [row] = await this.#db.read('SELECT number, message_count FROM agent WHERE id = ?', agentId)
    let gone = 0
    // Messages are deleted from the end, and their count is updated in the same transaction. After a crash the agent has fewer messages,
    // but still has its prompt, and the numbers of its messages have no gap.
    for (let left = Number(row?.message_count ?? 0) - deletedAtOnce; left > 0; left -= deletedAtOnce) {
      gone += await this.#db.write(() => {
        this.#db.run('UPDATE agent SET message_count = min(message_count, ?) WHERE id = ?', left, agentId)
        return Number(this.#db.run('DELETE FROM message WHERE agent = ? AND sequence > ?', Number(row?.number), left).changes)
      })
    }
    return gone
  }

  async totals(namespace: string | undefined, except: ReadonlySet<string>): Promise<Totals> {
    const rows = await this.#db.read(
      `SELECT incarnation, count(*) AS agents, sum(message_count) AS messages FROM agent
       ${namespace === undefined ? '' : 'WHERE namespace = ?'} GROUP BY incarnation`,
      ...(namespace === undefined ? [] : [namespace]),
    )
    const counted = rows.filter((row) => !except.has(String(row.incarnation)))
    const sum = (column: string): number => counted.reduce((total, row) => total + Number(row[column]), 0)
    return { agents: sum('agents'), messages: sum('messages') }
  }

  save(progress: readonly Progress[]): Promise<readonly (readonly Message[])[]> {
    return this.#messages.save(progress)
  }

  async positions(agentId: string): Promise<readonly StreamPosition[]> {
    const rows = await this.#db.read('SELECT stream, offset FROM position JOIN agent ON number = agent WHERE agent.id = ?', agentId)
    return rows.map((row) => ({ agentId, stream: String(row.stream), offset: Number(row.offset) }))
  }

  messages(agentId: string, since: number, limit: number): Promise<readonly Message[]> {
    return this.#db.retrying(() => {
      const rows = this.#db
        .prepare('SELECT * FROM message WHERE agent = (SELECT number FROM agent WHERE id = ?) AND sequence > ? ORDER BY sequence LIMIT ?')
        .iterate(agentId, since, limit)
      const page: Message[] = []
      let size = 0
      for (const row of rows) {
        page.push(toMessage(agentId, row))
        size += String(row.content).length + String(row.raw ?? '').length + String(row.metadata ?? '').length
        if (size > pageSize) break
      }
      return page
    })
  }

  newOwner(owner: Omit<OwnerRecord, 'state'>): PreparedRow {
    const insert = (): void => {
      const [known] = this.#db.all('SELECT 1 FROM owner WHERE kind = ? AND namespace = ? AND id = ?', owner.kind, owner.namespace, owner.id)
      if (known) throw new EbbError('scope_closed', `The ${owner.kind} ${owner.id} exists already; use another id.`)
      this.#db.run(
        'INSERT INTO owner (kind, namespace, id, scope_id, created_at, closes_at) VALUES (?, ?, ?, ?, ?, ?)',
        owner.kind,
        owner.namespace,
        owner.id,
        owner.scopeId,
        owner.createdAt,
        owner.closesAt ?? null,
      )
    }
    return { insert }
  }

  async findOwner(kind: OwnerKind, namespace: string, id: string): Promise<OwnerRecord | undefined> {
    const [row] = await this.#db.read(
      `SELECT owner.*, scope.state FROM owner LEFT JOIN scope ON scope.id = scope_id WHERE owner.kind = ? AND namespace = ? AND owner.id = ?`,
      kind,
      namespace,
      id,
    )
    // A scope is deleted from the ledger only after it was closed, so a missing scope counts as closed.
    const state = (row?.state ?? 'closed') as ScopeState
    if (!row) return undefined
    const closesAt = row.closes_at === null ? {} : { closesAt: String(row.closes_at) }
    return { kind, namespace, id, scopeId: String(row.scope_id), state, createdAt: String(row.created_at), ...closesAt }
  }

  async removeOwners(namespace: string | undefined): Promise<void> {
    const where = namespace === undefined ? '' : 'AND namespace = ?'
    const values = namespace === undefined ? [] : [namespace]
    await this.#db.write(() => {
      this.#db.run(
        `DELETE FROM owner WHERE NOT EXISTS (SELECT 1 FROM scope WHERE scope.id = scope_id AND state != 'closed') ${where}`,
        ...values,
      )
      this.#db.run(
        `DELETE FROM task WHERE NOT EXISTS (SELECT 1 FROM owner WHERE kind = 'task' AND owner.namespace = task.namespace AND owner.id = task.id) ${where}`,
        ...values,
      )
      forgetFolders(this.#db)
    })
  }

  close(): Promise<void> {
    return this.#messages.close()
  }
}

function conditionsOf(filter: AgentFilter): { conditions: readonly string[]; values: SQLInputValue[] } {
  const conditions = ['TRUE']
  const values: SQLInputValue[] = []
  const add = (condition: string, ...more: SQLInputValue[]): void => {
    conditions.push(condition)
    values.push(...more)
  }
  if (filter.namespace !== undefined) add('namespace = ?', filter.namespace)
  if (filter.statuses) add(`status IN (${filter.statuses.map(() => '?').join(', ')})`, ...filter.statuses)
  if (filter.requestId !== undefined) add('request_id = ?', filter.requestId)
  if (filter.taskId !== undefined) add('task_id = ?', filter.taskId)
  const except = [...(filter.exceptIncarnations ?? [])]
  if (except.length > 0) add(`incarnation NOT IN (${except.map(() => '?').join(', ')})`, ...except)
  if (filter.cursor !== undefined) add('number < ?', Number(filter.cursor))
  return { conditions, values }
}
