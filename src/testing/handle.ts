import { randomBytes } from 'node:crypto'
import { type CleanupOptions, type CleanupResult, cleanupRealAgents } from './cleanup.ts'
import { NoTestEndpoints, TestCleanupManager } from './cleanup-manager.ts'
import { pollUntil } from './race.ts'
import { type Address, type Client, clientOf } from './request.ts'
import { type TerminalState, waitForAgentTerminalState } from './wait.ts'
import { type AgentSummary, hasEnded, leaksOf, observe, type SystemState } from './world.ts'

/** The handle of a test: a namespace of a server, and functions to use it. Every function of the testing kit accepts it as target. */
export interface EbbHandle extends Address {
  readonly url: string
  readonly namespace: string
  /** Headers for your own calls, so that they apply to this test's namespace. */
  readonly headers: Readonly<Record<string, string>>
  /** Launches an agent and answers with its id. */
  launch(body: LaunchBody): Promise<string>
  /** Waits until the agent has ended: see `waitForAgentTerminalState`. */
  wait(agentId: string, timeoutMs?: number): Promise<TerminalState>
  /** The agents of this test, newest first. */
  agents(): Promise<readonly AgentSummary[]>
  /** Calls a path under `/api`, such as `/agents/ID/messages`. Throws unless the answer is a success. */
  get<T>(path: string): Promise<T>
  post<T>(path: string, data?: unknown): Promise<T>
  /** Deletes this test's agents and verifies that: see `cleanupRealAgents`. */
  cleanup(options?: CleanupOptions): Promise<CleanupResult>
  /** Removes everything from this test's namespace and verifies that. Needs a server with `--test-endpoints`. */
  reset(): Promise<void>
}

export interface LaunchBody {
  readonly type: string
  readonly prompt?: string
  readonly configuration?: Readonly<Record<string, unknown>>
  readonly requestId?: string
  readonly taskId?: string
  readonly parentAgentId?: string
  readonly placement?: string
}

/** What happens when something of a test is still running at its end. `fail`: the test fails. `clean`: the rest is only cleaned up. */
export type Leaks = 'fail' | 'clean'

export function handleOf(address: Address & { readonly namespace: string }): EbbHandle {
  const { url, namespace, token } = address
  const client = clientOf(address)
  return {
    url,
    namespace,
    ...(token !== undefined && { token }),
    headers: { 'X-Ebb-Namespace': namespace, ...(token !== undefined && { Authorization: `Bearer ${token}` }) },
    launch: async (body) => (await client.ask<{ id: string }>('post', '/api/agents', { data: { prompt: '', ...body } })).id,
    wait: (agentId, timeoutMs) => waitForAgentTerminalState(address, agentId, timeoutMs),
    agents: () => client.ask('get', '/api/agents'),
    get: (path) => client.ask('get', `/api${path}`),
    post: (path, data) => client.ask('post', `/api${path}`, data === undefined ? {} : { data }),
    cleanup: (options) => cleanupRealAgents(address, options),
    reset: () => new TestCleanupManager(address).cleanupAll(),
  }
}

/** A unique namespace that contains the title of the test. */
export function namespaceFor(title: string): string {
  const readable = title
    .normalize('NFKD')
    .replaceAll(/[^A-Za-z0-9]+/g, '-')
    .replaceAll(/^-|-$/g, '')
    .slice(0, 60)
  return `test-${readable}-${randomBytes(6).toString('hex')}`.replaceAll('--', '-')
}

/** The longest wait for something that is ending by itself, such as a closing socket or an agent after its last message. */
const settleMs = 2_000

/**
 * Ends a test: removes everything from its namespace and verifies that. Throws when something is left, and, with `leaks` set to `fail`,
 * when the test left something running. `allowance` is the code that would allow leaks, for the error message.
 */
export async function finish(handle: EbbHandle, leaks: Leaks, allowance: string): Promise<void> {
  const found = leaks === 'fail' ? await leaksAtTheEnd(clientOf(handle)) : []
  await handle.reset().catch(async (error: unknown) => {
    if (!(error instanceof NoTestEndpoints)) throw error
    await handle.cleanup({ throwOnFailure: true })
  })
  if (found.length > 0)
    throw new Error(
      `This test leaked: ${found.join('; ')}. It is cleaned up now. End what a test starts, such as with "await ebb.cleanup()", or allow it with ${allowance}.`,
    )
}

async function leaksAtTheEnd(client: Client): Promise<readonly string[]> {
  let found: readonly string[] = []
  await pollUntil(settleMs, async (): Promise<true | undefined> => {
    const state = await observe(client)
    found = await leaksOf(client, state)
    return found.length === 0 || isRunning(state) ? true : undefined
  })
  return found
}

/** True when an agent is running and not stopping. Waiting until `settleMs` would not end such an agent. */
function isRunning({ agents }: SystemState): boolean {
  return agents.some(({ status }) => !hasEnded(status) && status !== 'stopping')
}
