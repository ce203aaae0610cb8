import { randomBytes } from 'node:crypto'
import { type CleanupOptions, type CleanupResult, cleanupRealAgents } from './cleanup.ts'
import { NoTestEndpoints, TestCleanupManager } from './cleanup-manager.ts'
import { lookUntil } from './race.ts'
import { type Address, type Client, clientOf } from './request.ts'
import { type TerminalState, waitForAgentTerminalState } from './wait.ts'
import { type AgentSummary, hasEnded, leaksOf, look, type World } from './world.ts'

/** What a test gets: a part of a server that is its own, and words to use it. It may be given to every function of the kit. */
export interface EbbHandle extends Address {
  readonly url: string
  readonly namespace: string
  /** For calls of your own, so that they mean this test's namespace. */
  readonly headers: Readonly<Record<string, string>>
  /** Launches an agent and answers with its id. */
  launch(body: LaunchBody): Promise<string>
  /** Its end, by event: see `waitForAgentTerminalState`. */
  wait(agentId: string, timeoutMs?: number): Promise<TerminalState>
  /** The agents of this test, newest first. */
  agents(): Promise<readonly AgentSummary[]>
  /** The answer to a call under `/api`, such as `/agents/ID/messages`; throws when it is no success. */
  get<T>(path: string): Promise<T>
  post<T>(path: string, data?: unknown): Promise<T>
  /** Deletes this test's agents, proven: see `cleanupRealAgents`. */
  cleanup(options?: CleanupOptions): Promise<CleanupResult>
  /** Brings this test's namespace back to nothing, proven; needs a server with `--test-endpoints`. */
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

/** `fail`: a test that ends while something of it lives has failed. `clean`: it is only cleaned up. */
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

/** A namespace that nobody else has, in which a person finds the test again. */
export function namespaceFor(title: string): string {
  const readable = title
    .normalize('NFKD')
    .replaceAll(/[^A-Za-z0-9]+/g, '-')
    .replaceAll(/^-|-$/g, '')
    .slice(0, 60)
  return `test-${readable}-${randomBytes(6).toString('hex')}`.replaceAll('--', '-')
}

/** What ends by itself, such as a closing socket or an agent after its last word, may take this long to be seen ended. */
const settleMs = 2_000

/**
 * The end of a test: everything of it goes, proven, or this throws; and so does a test that left something living.
 * `allowance` is how a test says that it may.
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
  await lookUntil(settleMs, async (): Promise<true | undefined> => {
    const world = await look(client)
    found = await leaksOf(client, world)
    return found.length === 0 || isRunning(world) ? true : undefined
  })
  return found
}

/** These do not end by themselves in the time that is waited for the rest. */
function isRunning({ agents }: World): boolean {
  return agents.some(({ status }) => !hasEnded(status) && status !== 'stopping')
}
