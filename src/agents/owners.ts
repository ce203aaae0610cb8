import { type Engine, othersRecoveryMs } from '../core/engine/api.ts'
import { noop } from '../core/engine/race.ts'
import type { CloseRequest } from '../core/model/close-request.ts'
import { EbbError, isEbbError } from '../core/model/errors.ts'
import type { Report } from '../core/model/report.ts'
import type { ScopeState } from '../core/model/scope.ts'
import type { AgentStore, OwnerKind } from '../core/ports/agents.ts'
import type { Runtime } from '../core/ports/runtime.ts'
import type { History } from './history.ts'
import type { Namespaces } from './namespaces.ts'

export interface OwnerName {
  readonly kind: OwnerKind
  readonly namespace: string
  readonly id: string
}

export interface OwnersDeps extends Pick<Runtime, 'clock' | 'newId'> {
  readonly engine: Engine
  readonly store: AgentStore
  readonly namespaces: Namespaces
  readonly history: History
}

/** Requests and tasks: scopes that own the agents launched in them. Once closed they stay closed, also across restarts. */
export class Owners {
  readonly #deps: OwnersDeps
  /** The scopes of requests and tasks that are being opened, so that two launches with the same new id share one scope. */
  readonly #opening = new Map<string, Promise<string>>()

  constructor(deps: OwnersDeps) {
    this.#deps = deps
  }

  /** Returns the scope of an open request or task; opens it on first use. */
  async enter(name: OwnerName): Promise<string> {
    const key = `${name.kind} ${name.namespace} ${name.id}`
    let opening = this.#opening.get(key)
    if (!opening) {
      opening = this.#enter(name).finally(() => this.#opening.delete(key))
      this.#opening.set(key, opening)
    }
    return await opening
  }

  async #enter(name: OwnerName): Promise<string> {
    const known = await this.#findOpen(name)
    if (known !== undefined) return known
    try {
      return await this.#open(name)
    } catch (error) {
      // A concurrent call may have opened the same request or task. Then the scope of that call is returned.
      const opened = isEbbError(error, 'scope_closed') ? await this.#findOpen(name) : undefined
      if (opened === undefined) throw error
      return opened
    }
  }

  /** Returns the scope of a request or task, or undefined if there is none. Throws when the scope is not open in this process. */
  async #findOpen(name: OwnerName): Promise<string | undefined> {
    const known = await this.#deps.store.findOwner(name.kind, name.namespace, name.id)
    const stateHere = known && this.stateOf(known.scopeId)
    if (known && stateHere !== 'open') throw closed(name, stateHere === undefined && known.state === 'open')
    return known?.scopeId
  }

  /** Opens a request or task without an agent. Refused when one of that name exists, open or closed. */
  async open(name: OwnerName, timeoutMs?: number): Promise<string> {
    await this.#requireFree(name)
    const scopeId = await this.#open(name, timeoutMs).catch(async (error: unknown) => {
      // If a concurrent call has opened the same request or task first, `#requireFree` throws the error that says so.
      if (isEbbError(error, 'scope_closed')) await this.#requireFree(name)
      throw error
    })
    if (timeoutMs !== undefined) this.#closeAfter(scopeId, timeoutMs)
    return scopeId
  }

  async #requireFree(name: OwnerName): Promise<void> {
    const known = await this.#deps.store.findOwner(name.kind, name.namespace, name.id)
    if (!known) return
    const what = `The ${name.kind} ${name.id}`
    if ((this.stateOf(known.scopeId) ?? known.state) !== 'open') throw new EbbError('scope_closed', `${what} is closed; use another id.`)
    throw new EbbError('request_exists', `${what} is open already; use it, or another id.`)
  }

  /** Restores the deadline of a request that outlived its supervisor. */
  async resume(name: OwnerName): Promise<void> {
    const known = await this.#deps.store.findOwner(name.kind, name.namespace, name.id)
    if (known?.closesAt === undefined) return
    this.#closeAfter(known.scopeId, Math.max(0, Date.parse(known.closesAt) - Date.parse(this.#deps.clock.wall())))
  }

  #closeAfter(scopeId: string, ms: number): void {
    const scope = this.#deps.engine.inspect(scopeId)
    if (!scope) return
    this.#deps.clock.after(ms, scope.signal, () => {
      // Swallowed: the report is in the history, and the reaper repeats a close that failed.
      this.#deps.engine.close(scopeId, { trigger: 'request-finished' }).catch(() => {})
    })
  }

  async #open(name: OwnerName, timeoutMs?: number): Promise<string> {
    const parentId = this.#deps.namespaces.enter(name.namespace)
    const scope = this.#deps.engine.openScope({ id: `${name.kind}-${this.#deps.newId()}`, kind: name.kind, parentId, label: name.id })
    const createdAt = this.#deps.clock.wall()
    const closesAt = timeoutMs === undefined ? {} : { closesAt: new Date(Date.parse(createdAt) + timeoutMs).toISOString() }
    const row = { ...name, scopeId: scope.id, createdAt, ...closesAt }
    await this.#deps.engine.record(scope, [this.#deps.store.newOwner(row)]).catch(async (error: unknown) => {
      await this.#deps.engine.close(scope.id, { trigger: 'launch-rollback' }, { isPart: true })
      throw error
    })
    return scope.id
  }

  async find(name: OwnerName): Promise<{ readonly scopeId: string; readonly state: ScopeState }> {
    const known = await this.#deps.store.findOwner(name.kind, name.namespace, name.id)
    if (!known) throw new EbbError('request_not_found', `There is no ${name.kind} ${name.id} in the namespace ${name.namespace}.`)
    // Only the ledger has the state of a scope that another Ebb process owns.
    return { scopeId: known.scopeId, state: this.stateOf(known.scopeId) ?? known.state }
  }

  /** Returns the scope of a request or task that exists and is open here. Never creates one. */
  async existing(name: OwnerName): Promise<string> {
    const { scopeId, state } = await this.find(name)
    const stateHere = this.stateOf(scopeId)
    if (stateHere !== 'open') throw closed(name, stateHere === undefined && state === 'open')
    return scopeId
  }

  stateOf(scopeId: string): ScopeState | undefined {
    return this.#deps.engine.inspect(scopeId)?.state
  }

  /** Ends a request or task with everything in it. Refused when another process owns it. */
  async close(name: OwnerName, force: boolean): Promise<{ readonly report: Promise<Report> }> {
    const scopeId = await this.#toClose(name)
    return { report: this.#deps.engine.close(scopeId, closeRequestOf(force), { name: { kind: name.kind, id: name.id } }) }
  }

  /** Begins the close of a request or task without waiting for its end. Returns the id under which the history lists the close. */
  async beginClose(name: OwnerName, force: boolean): Promise<string> {
    const scopeId = await this.#toClose(name)
    const { engine, history, newId } = this.#deps
    const scope = { kind: name.kind, id: name.id }
    const closeRequest = closeRequestOf(force)
    const running = engine.closeOf(scopeId)
    // A scope that is already closed has no stored report of its own. A close that is part of a larger one has none either. For
    // both cases a report is recorded here.
    if (running ? !running.isReported : !engine.owns(scopeId)) {
      const about = { id: newId(), trigger: closeRequest.trigger, scope, namespace: name.namespace }
      // Swallowed: the caller does not wait, and the history has the report.
      history.record(about, (partOf) => engine.close(scopeId, closeRequest, { name: scope, partOf })).catch(noop)
      return about.id
    }
    // Swallowed: this call joins the running close, which has a report of its own.
    engine.close(scopeId, closeRequest, { name: scope }).catch(noop)
    return engine.closeOf(scopeId)?.id ?? scopeId
  }

  async #toClose(name: OwnerName): Promise<string> {
    let { scopeId, state } = await this.find(name)
    if (this.#isOwnedByOther(scopeId, state)) {
      await this.#deps.engine.recover({ waitMs: othersRecoveryMs })
      ;({ scopeId, state } = await this.find(name))
    }
    if (this.#isOwnedByOther(scopeId, state))
      throw new EbbError(
        'agent_foreign',
        `The ${name.kind} ${name.id} belongs to another Ebb process, or is being recovered by one; end it there.`,
      )
    return scopeId
  }

  #isOwnedByOther(scopeId: string, state: ScopeState): boolean {
    return state !== 'closed' && !this.#deps.engine.owns(scopeId)
  }
}

function closeRequestOf(force: boolean): CloseRequest {
  return { trigger: 'request-finished', ...(force && { force }) }
}

function closed({ kind, id }: OwnerName, isOwnedByOther: boolean): EbbError {
  const reason = isOwnedByOther ? 'belongs to another Ebb process, which may have died,' : 'is closed'
  return new EbbError('scope_closed', `The ${kind} ${id} ${reason} and accepts no agents; use another id.`)
}
