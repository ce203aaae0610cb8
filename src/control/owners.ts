import { EbbError } from '../domain/errors.ts'
import type { Report } from '../domain/report.ts'
import type { ScopeState, Wish } from '../domain/scope.ts'
import type { Engine } from '../engine/engine.ts'
import type { AgentStore, OwnerKind } from '../ports/agents.ts'
import type { Namespaces } from './namespaces.ts'

export interface OwnerName {
  readonly kind: OwnerKind
  readonly namespace: string
  readonly id: string
}

/** A close under way. */
export interface Closing {
  /** Under which the history knows it. */
  readonly id: string
  readonly report: Promise<Report>
}

/** Another process, such as a sentinel, may be recovering what somebody asks for. */
const recoveryBudgetMs = 10_000

/** Requests and tasks: they own what is launched in them, and close for good, also across restarts. */
export class Owners {
  readonly #engine: Engine
  readonly #agents: AgentStore
  readonly #namespaces: Namespaces
  /** Openings under way: two agents that come with the same new id find one scope. */
  readonly #opening = new Map<string, Promise<string>>()

  constructor(engine: Engine, agents: AgentStore, namespaces: Namespaces) {
    this.#engine = engine
    this.#agents = agents
    this.#namespaces = namespaces
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
    const known = await this.#agents.findOwner(name.kind, name.namespace, name.id)
    const here = known && this.stateOf(known.scopeId)
    if (known && here === 'open') return known.scopeId
    if (known) throw closed(name, here === undefined && known.state === 'open')
    return await this.#open(name)
  }

  /** Opens it by itself; refused when there is one of that name, open or closed. */
  async open(name: OwnerName, timeoutMs?: number): Promise<string> {
    if (await this.#agents.findOwner(name.kind, name.namespace, name.id))
      throw new EbbError('scope_closed', `The ${name.kind} ${name.id} exists already; use another id.`)
    const scopeId = await this.#open(name)
    if (timeoutMs !== undefined) {
      const scope = this.#engine.parts.book.find(scopeId)
      if (scope)
        this.#engine.parts.clock.after(timeoutMs, scope.closing.signal, () => {
          this.#engine.close(scopeId, { trigger: 'request-finished' }).catch(() => {})
        })
    }
    return scopeId
  }

  async #open(name: OwnerName): Promise<string> {
    const parentId = this.#namespaces.enter(name.namespace)
    const scope = this.#engine.openScope({ id: `${name.kind}-${this.#engine.parts.newId()}`, kind: name.kind, parentId, label: name.id })
    const createdAt = this.#engine.parts.clock.wall()
    await Promise.all([scope.recorded, this.#agents.openOwner({ ...name, scopeId: scope.id, createdAt })]).catch(async (error: unknown) => {
      await this.#engine.close(scope.id, { trigger: 'launch-rollback' }, { isPart: true })
      throw error
    })
    return scope.id
  }

  async find(name: OwnerName): Promise<{ readonly scopeId: string; readonly state: ScopeState }> {
    const known = await this.#agents.findOwner(name.kind, name.namespace, name.id)
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
    return this.#engine.parts.book.find(scopeId)?.state
  }

  /** Ends it with everything in it. Refused where only another process can tell what of it is left. */
  async close(name: OwnerName, force: boolean): Promise<Closing> {
    let { scopeId, state } = await this.find(name)
    if (this.#isElsewhere(scopeId, state)) {
      await this.#engine.recoverPatiently(recoveryBudgetMs)
      ;({ scopeId, state } = await this.find(name))
    }
    if (this.#isElsewhere(scopeId, state))
      throw new EbbError('agent_foreign', `The ${name.kind} ${name.id} belongs to another ebb, or is being recovered by one; end it there.`)
    const wish: Wish = { trigger: 'request-finished', ...(force && { force }) }
    const report = this.#engine.close(scopeId, wish, { name: { kind: name.kind, id: name.id } })
    return { id: this.#engine.parts.flights.get(scopeId)?.id ?? scopeId, report }
  }

  #isElsewhere(scopeId: string, state: ScopeState): boolean {
    return state !== 'closed' && !this.#engine.parts.book.find(scopeId)
  }
}

function closed({ kind, id }: OwnerName, isElsewhere: boolean): EbbError {
  const where = isElsewhere ? 'belongs to another ebb, or to one that died,' : 'is closed'
  return new EbbError('scope_closed', `The ${kind} ${id} ${where} and takes no agent; use another id.`)
}
