import { pollUntil } from './race.ts'
import { type Client, clientOf, messageOf, type Target } from './request.ts'
import { type AgentSummary, issuesOf, many, nameOf, observe, type SystemState } from './world.ts'

export interface CleanupOptions {
  /** The maximum number of rounds of deletions. */
  readonly maxRetries?: number
  /** The longest wait between two rounds, in ms. The next round begins as soon as no process is left. */
  readonly retryDelay?: number
  /** The longest time for an agent to end, in ms. The deletion of an agent answers as soon as the agent is verified gone. */
  readonly processExitDelay?: number
  /** True throws an error that names what is left. Otherwise a warning is printed. */
  readonly throwOnFailure?: boolean
  /** True prints each step to the console. */
  readonly verbose?: boolean
}

export interface CleanupResult {
  /** Agents that existed and are gone. */
  readonly cleaned: number
  /** The number of agents that still exist; without any, the number of other things that are left. */
  readonly remaining: number
  /** The number of rounds of deletions; 0 when there was nothing to do. */
  readonly attempts: number
  /** The duration of the cleanup, in milliseconds. */
  readonly duration: number
  /** The names of everything that is left. */
  readonly issues: readonly string[]
}

/** The maximum number of deletions at the same time. More would only wait in the server. */
const batchSize = 5

/** The time that a deletion may take beyond the agent's own time to end, for the kill, the ledger and the answer. */
const answerMs = 15_000

/**
 * Deletes every agent and checks whether the server is clean. Repeats that by force until the server is clean, or the rounds are used up.
 * Needs no test endpoints. Each wait ends at its event, and its option is only the limit.
 */
export async function cleanupRealAgents(target: Target, options: CleanupOptions = {}): Promise<CleanupResult> {
  const { maxRetries = 5, retryDelay = 2_000, processExitDelay = 3_000, throwOnFailure = false, verbose = false } = options
  const print = verbose ? (line: string): void => console.log(line) : (): void => {}
  const client = clientOf(target)
  const startedMs = performance.now()
  const seen = new Set<string>()
  let attempts = 0
  let state = await observe(client)
  if (state.status.isClean) print('Nothing to clean up.')
  while (!state.status.isClean && attempts < maxRetries) {
    attempts += 1
    for (const { id } of state.agents) seen.add(id)
    print(`Attempt ${attempts} of ${maxRetries}: cleaning up ${many(state.agents.length, 'agent')}.`)
    await deleteAll({ client, exitMs: processExitDelay, isForced: attempts > 1, print }, state.agents)
    state = await observe(client)
    if (state.status.isClean || attempts === maxRetries) break
    print(`  Not clean yet; waiting at most ${retryDelay} ms for the last process to leave.`)
    state = await settled(client, retryDelay, state)
  }

  const issues = await issuesOf(client, state)
  const result = {
    cleaned: seen.size - state.agents.filter(({ id }) => seen.has(id)).length,
    remaining: state.agents.length || issues.length,
    attempts,
    duration: Math.round(performance.now() - startedMs),
    issues,
  }
  if (issues.length === 0)
    print(`Clean, verified: ${many(result.cleaned, 'agent')} in ${many(attempts, 'attempt')} and ${result.duration} ms.`)
  else reportIncomplete(`The cleanup is not complete after ${many(attempts, 'attempt')}: ${issues.join('; ')}.`, throwOnFailure)
  return result
}

interface Round {
  readonly client: Client
  readonly exitMs: number
  readonly isForced: boolean
  readonly print: (line: string) => void
}

async function deleteAll(round: Round, agents: readonly AgentSummary[]): Promise<void> {
  let done = 0
  for (let first = 0; first < agents.length; first += batchSize) {
    const results = await Promise.all(agents.slice(first, first + batchSize).map((agent) => deleteOne(round, agent)))
    done += results.filter(Boolean).length
  }
  if (agents.length > 0) round.print(`  Deletions: ${done} of ${agents.length} succeeded.`)
}

/** Resolves with true when the agent is gone, with its rows. The server answers when that is verified, or when the time is up. */
async function deleteOne({ client, exitMs, isForced, print }: Round, agent: AgentSummary): Promise<boolean> {
  // An agent that is stuck has already been stopped politely, so its deletion begins by force.
  const force = isForced || agent.status === 'stuck'
  print(`  Deleting ${nameOf(agent)}${force ? ' by force' : ''}.`)
  const query = `timeout=${exitMs}${force ? '&force=true' : ''}`
  try {
    const { isOk, status, body } = await client.call('delete', `/api/agents/${agent.id}?${query}`, { timeoutMs: exitMs + answerMs })
    const isGone = isOk || status === 404
    print(isGone ? `  Agent ${agent.id} is gone.` : `  Agent ${agent.id} is still there (${status}): ${messageOf(body)}`)
    return isGone
  } catch (error) {
    // The deletion was not answered. The next status request shows whether the agent was deleted.
    print(`  The deletion of agent ${agent.id} got no answer: ${String(error)}`)
    return false
  }
}

/** Waits until the server is clean, or its last process has ended, and returns the last observation. */
async function settled(client: Client, ms: number, before: SystemState): Promise<SystemState> {
  let state = before
  await pollUntil(ms, async (): Promise<true | undefined> => {
    state = await observe(client)
    const isLastGone = before.status.runningProcesses > 0 && state.status.runningProcesses === 0
    return state.status.isClean || isLastGone ? true : undefined
  })
  return state
}

function reportIncomplete(sentence: string, isFatal: boolean): void {
  if (isFatal) throw new Error(sentence)
  console.warn(sentence)
}
