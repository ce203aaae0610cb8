import type { Report } from '../../../src/core/model/report.ts'
import type { Proof, Resource } from '../../../src/core/model/resource.ts'
import type { Scope } from '../../../src/core/model/scope.ts'
import type { IncarnationRecord, Ledger, NewIntent, NewScope, Outcome, Settlement } from '../../../src/core/ports/ledger.ts'

/** Builds records for the ledger tests. A call gives only the fields that matter to the test. */

export function incarnation(id: string, more: Partial<IncarnationRecord> = {}): IncarnationRecord {
  return {
    id,
    installation: 'a1b2c3d4e5f6',
    identity: { bootId: 'f0e1d2c3-0000-4000-8000-000000000000', pidNamespace: '4026531836', pid: 4_711, startTime: '987654' },
    role: 'command',
    address: undefined,
    claimedBy: undefined,
    registeredAt: '2026-11-15T09:00:00.000Z',
    ...more,
  }
}

export function server(id: string, address = 'http://127.0.0.1:4400', more: Partial<IncarnationRecord> = {}): IncarnationRecord {
  return incarnation(id, { role: 'server', address, ...more })
}

export function scope(id: string, parentId?: string, more: Partial<NewScope> = {}): NewScope {
  return { id, kind: parentId === undefined ? 'host' : 'agent', parentId, incarnation: 'i1', ...more }
}

export function intent(scopeId: string, ordinal: number, more: Partial<NewIntent> = {}): NewIntent {
  return {
    id: `${scopeId}.${ordinal}`,
    scopeId,
    incarnation: 'i1',
    kind: 'file',
    name: `/workspace/${scopeId}/${ordinal}`,
    spec: { workspace: '/work', path: `${scopeId}/${ordinal}` },
    dependsOn: [],
    onLoss: 'end',
    ...more,
  }
}

export const proof: Proof = { method: 'no such path', strength: 'kernel', at: '2026-11-15T09:00:01.000Z' }

export function released(resourceId: string, more: Partial<Outcome> = {}): Outcome {
  return { resourceId, state: 'released', attempts: 1, proof, ...more }
}

export function settlement(more: Partial<Settlement>): Settlement {
  return { outcomes: [], closedScopeIds: [], forgottenScopeIds: [], ...more }
}

export function report(scopeId: string, more: Partial<Report> = {}): Report {
  return {
    success: true,
    trigger: 'completed',
    scope: { kind: 'agent', id: scopeId },
    startedAt: '2026-11-15T09:00:00.000Z',
    duration: 12.5,
    cleanedAgentsCount: 1,
    cleanedMessagesCount: 0,
    resources: [{ kind: 'file', name: '/workspace/ä "quoted"', outcome: 'released', steps: [], proof }],
    errors: [],
    gaveUp: [],
    ...more,
  }
}

/** Opens a host scope with one agent scope below it. */
export async function openAgent(ledger: Ledger, agent = 'agent', incarnationId = 'i1'): Promise<void> {
  const host = `host-${incarnationId}`
  const known = await scopeOf(ledger, host)
  if (!known) await ledger.open({ scopes: [scope(host, undefined, { incarnation: incarnationId })] })
  await ledger.open({ scopes: [scope(agent, host, { incarnation: incarnationId })] })
}

/** Opens an agent scope with held resources. */
export async function holdResources(ledger: Ledger, agent: string, count: number): Promise<void> {
  await openAgent(ledger, agent)
  const intents = Array.from({ length: count }, (_, index) => intent(agent, index + 1))
  await ledger.intend(agent, intents)
  await ledger.hold(intents.map(({ id }) => ({ resourceId: id })))
}

export async function scopeOf(ledger: Ledger, id: string): Promise<Scope | undefined> {
  return (await ledger.contents()).scopes.find((one) => one.id === id)
}

export async function resourceOf(ledger: Ledger, id: string): Promise<Resource | undefined> {
  return (await ledger.contents()).resources.find((one) => one.id === id)
}

export async function statesOf(ledger: Ledger): Promise<Record<string, string>> {
  const { scopes, resources } = await ledger.contents()
  return Object.fromEntries([...scopes, ...resources].map(({ id, state }) => [id, state]))
}
