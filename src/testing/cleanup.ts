import { lookUntil } from './race.ts'
import { type Client, clientOf, messageOf, type Target } from './request.ts'
import { type AgentSummary, issuesOf, look, many, nameOf, type World } from './world.ts'

export interface CleanupOptions {
  /** How many rounds of deletions there may be. */
  readonly maxRetries?: number
  /** The most that is waited between two rounds, in ms; the next one begins as soon as no process is left. */
  readonly retryDelay?: number
  /** The most that an agent may take to leave, in ms; its deletion answers as soon as it is gone, proven. */
  readonly processExitDelay?: number
  /** Throws, naming what is left, instead of a warning. */
  readonly throwOnFailure?: boolean
  /** Says each step on the console. */
  readonly verbose?: boolean
}

export interface CleanupResult {
  /** Agents that were there and are gone. */
  readonly cleaned: number
  /** Things that are still there: agents, or what is left though no agent is. */
  readonly remaining: number
  /** Rounds of deletions; 0 when there was nothing to do. */
  readonly attempts: number
  /** Milliseconds. */
  readonly duration: number
  /** What is still there, by name. */
  readonly issues: readonly string[]
}

/** As many deletions at once: more would only wait in the server. */
const batchSize = 5

/** On top of the agent's own time, for the kill, the books and the answer. */
const answerMs = 15_000

/**
 * Deletes every agent, and looks whether the world is clean; again, by force, until it is, or the rounds are used up.
 * Needs no test endpoints. No wait here is fixed: each ends at the proof, and its option only bounds it.
 */
export async function cleanupRealAgents(target: Target, options: CleanupOptions = {}): Promise<CleanupResult> {
  const { maxRetries = 5, retryDelay = 2_000, processExitDelay = 3_000, throwOnFailure = false, verbose = false } = options
  const say = verbose ? (line: string): void => console.log(line) : (): void => {}
  const client = clientOf(target)
  const startedMs = performance.now()
  const seen = new Set<string>()
  let attempts = 0
  let world = await look(client)
  if (world.status.isClean) say('Nothing to clean up.')
  while (!world.status.isClean && attempts < maxRetries) {
    attempts += 1
    for (const { id } of world.agents) seen.add(id)
    say(`Attempt ${attempts} of ${maxRetries}: cleaning up ${many(world.agents.length, 'agent')}.`)
    await deleteAll({ client, exitMs: processExitDelay, isForced: attempts > 1, say }, world.agents)
    world = await look(client)
    if (world.status.isClean || attempts === maxRetries) break
    say(`  Not clean yet; waiting at most ${retryDelay} ms for the last process to leave.`)
    world = await settled(client, retryDelay, world)
  }

  const issues = await issuesOf(client, world)
  const result = {
    cleaned: seen.size - world.agents.filter(({ id }) => seen.has(id)).length,
    remaining: world.agents.length || issues.length,
    attempts,
    duration: Math.round(performance.now() - startedMs),
    issues,
  }
  if (issues.length === 0)
    say(`Clean, verified: ${many(result.cleaned, 'agent')} in ${many(attempts, 'attempt')} and ${result.duration} ms.`)
  else complain(`The cleanup is not complete after ${many(attempts, 'attempt')}: ${issues.join('; ')}.`, throwOnFailure)
  return result
}

interface Round {
  readonly client: Client
  readonly exitMs: number
  readonly isForced: boolean
  readonly say: (line: string) => void
}

async function deleteAll(round: Round, agents: readonly AgentSummary[]): Promise<void> {
  let done = 0
  for (let first = 0; first < agents.length; first += batchSize) {
    const results = await Promise.all(agents.slice(first, first + batchSize).map((agent) => deleteOne(round, agent)))
    done += results.filter(Boolean).length
  }
  if (agents.length > 0) round.say(`  Deletions: ${done} of ${agents.length} succeeded.`)
}

/** True when it is gone, with its rows. The server answers when that is proven, or when the time is up. */
async function deleteOne({ client, exitMs, isForced, say }: Round, agent: AgentSummary): Promise<boolean> {
  // One that is stuck has been asked before.
  const force = isForced || agent.status === 'stuck'
  say(`  Deleting ${nameOf(agent)}${force ? ' by force' : ''}.`)
  const query = `timeout=${exitMs}${force ? '&force=true' : ''}`
  try {
    const { isOk, status, body } = await client.call('delete', `/api/agents/${agent.id}?${query}`, { timeoutMs: exitMs + answerMs })
    const isGone = isOk || status === 404
    say(isGone ? `  Agent ${agent.id} is gone.` : `  Agent ${agent.id} is still there (${status}): ${messageOf(body)}`)
    return isGone
  } catch (error) {
    // The look that follows says what became of it.
    say(`  The deletion of agent ${agent.id} brought no answer: ${String(error)}`)
    return false
  }
}

/** The world when it is clean, or when its last process has gone and the next deletion will find less in its way. */
async function settled(client: Client, ms: number, before: World): Promise<World> {
  let world = before
  await lookUntil(ms, async (): Promise<true | undefined> => {
    world = await look(client)
    const isLastGone = before.status.runningProcesses > 0 && world.status.runningProcesses === 0
    return world.status.isClean || isLastGone ? true : undefined
  })
  return world
}

function complain(sentence: string, isFatal: boolean): void {
  if (isFatal) throw new Error(sentence)
  console.warn(sentence)
}
