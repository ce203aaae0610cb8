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

/** Requests and tasks: they own what is launched in them, and close for good, also across restarts. */
export class Owners {
  readonly #deps: OwnersDeps
  /** Openings under way: two agents that come with the same new id find one scope. */
  readonly #opening = new Map<string, Promise<string>>()

  constructor(deps: OwnersDeps) {
    this.#deps = deps
  }

  /** The scope of a request or task that is open; born with its first use. */
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
      // Somebody may have opened it by itself meanwhile.
      const opened = isEbbError(error, 'scope_closed') ? await this.#findOpen(name) : undefined
      if (opened === undefined) throw error
      return opened
    }
  }

  /** Where there is one it is open here, or nothing can enter it. */
  async #findOpen(name: OwnerName): Promise<string | undefined> {
    const known = await this.#deps.store.findOwner(name.kind, name.namespace, name.id)
    const here = known && this.stateOf(known.scopeId)
    if (known && here !== 'open') throw closed(name, here === undefined && known.state === 'open')
    return known?.scopeId
  }

  /** Opens it by itself; refused when there is one of that name, open or closed. */
  async open(name: OwnerName, timeoutMs?: number): Promise<string> {
    await this.#requireFree(name)
    const scopeId = await this.#open(name, timeoutMs).catch(async (error: unknown) => {
      // Another one may have been faster.
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

  /** One that outlived its supervisor has the time that it had. */
  async resume(name: OwnerName): Promise<void> {
    const known = await this.#deps.store.findOwner(name.kind, name.namespace, name.id)
    if (known?.closesAt === undefined) return
    this.#closeAfter(known.scopeId, Math.max(0, Date.parse(known.closesAt) - Date.parse(this.#deps.clock.wall())))
  }

  #closeAfter(scopeId: string, ms: number): void {
    const scope = this.#deps.engine.inspect(scopeId)
    if (!scope) return
    this.#deps.clock.after(ms, scope.signal, () => {
      this.#deps.engine.close(scopeId, { trigger: 'request-finished' }).catch(() => {})
    })
  }

  async #open(name: OwnerName, timeoutMs?: number): Promise<string> {
    const parentId = this.#deps.namespaces.enter(name.namespace)
    const scope = this.#deps.engine.openScope({ id: `${name.kind}-${this.#deps.newId()}`, kind: name.kind, parentId, label: name.id })
    const createdAt = this.#deps.clock.wall()
    const closesAt = timeoutMs === undefined ? {} : { closesAt: new Date(Date.parse(createdAt) + timeoutMs).toISOString() }
    const row = { ...name, scopeId: scope.id, createdAt, ...closesAt }
    await Promise.all([scope.recorded, this.#deps.store.openOwner(row)]).catch(async (error: unknown) => {
      await this.#deps.engine.close(scope.id, { trigger: 'launch-rollback' }, { isPart: true })
      throw error
    })
    return scope.id
  }

  async find(name: OwnerName): Promise<{ readonly scopeId: string; readonly state: ScopeState }> {
    const known = await this.#deps.store.findOwner(name.kind, name.namespace, name.id)
    if (!known) throw new EbbError('request_not_found', `There is no ${name.kind} ${name.id} in the namespace ${name.namespace}.`)
    // What another living ebb owns is in the ledger alone.
    return { scopeId: known.scopeId, state: this.stateOf(known.scopeId) ?? known.state }
  }

  /** The scope of one that exists and is open; none is born here. */
  async existing(name: OwnerName): Promise<string> {
    const { scopeId, state } = await this.find(name)
    const here = this.stateOf(scopeId)
    if (here !== 'open') throw closed(name, here === undefined && state === 'open')
    return scopeId
  }

  stateOf(scopeId: string): ScopeState | undefined {
    return this.#deps.engine.inspect(scopeId)?.state
  }

  /** Ends it with everything in it. Refused where only another process can tell what of it is left. */
  async close(name: OwnerName, force: boolean): Promise<{ readonly report: Promise<Report> }> {
    const scopeId = await this.#toClose(name)
    return { report: this.#deps.engine.close(scopeId, closeRequestOf(force), { name: { kind: name.kind, id: name.id } }) }
  }

  /** The same for those who do not wait: answers under which id the history knows it, from now on. */
  async beginClose(name: OwnerName, force: boolean): Promise<string> {
    const scopeId = await this.#toClose(name)
    const { engine, history, newId } = this.#deps
    const scope = { kind: name.kind, id: name.id }
    const closeRequest = closeRequestOf(force)
    const running = engine.closeOf(scopeId)
    // A close that was over before has no stored report, and a part of a larger close has none of its own.
    if (running ? !running.isReported : !engine.owns(scopeId)) {
      const about = { id: newId(), trigger: closeRequest.trigger, scope, namespace: name.namespace }
      history.record(about, (partOf) => engine.close(scopeId, closeRequest, { name: scope, partOf })).catch(noop)
      return about.id
    }
    engine.close(scopeId, closeRequest, { name: scope }).catch(noop)
    return engine.closeOf(scopeId)?.id ?? scopeId
  }

  async #toClose(name: OwnerName): Promise<string> {
    let { scopeId, state } = await this.find(name)
    if (this.#isElsewhere(scopeId, state)) {
      await this.#deps.engine.recover({ waitMs: othersRecoveryMs })
      ;({ scopeId, state } = await this.find(name))
    }
    if (this.#isElsewhere(scopeId, state))
      throw new EbbError('agent_foreign', `The ${name.kind} ${name.id} belongs to another ebb, or is being recovered by one; end it there.`)
    return scopeId
  }

  #isElsewhere(scopeId: string, state: ScopeState): boolean {
    return state !== 'closed' && !this.#deps.engine.owns(scopeId)
  }
}

function closeRequestOf(force: boolean): CloseRequest {
  return { trigger: 'request-finished', ...(force && { force }) }
}

function closed({ kind, id }: OwnerName, isElsewhere: boolean): EbbError {
  const where = isElsewhere ? 'belongs to another ebb, or to one that died,' : 'is closed'
  return new EbbError('scope_closed', `The ${kind} ${id} ${where} and takes no agent; use another id.`)
}
