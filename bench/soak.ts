import { readdirSync, readFileSync } from 'node:fs'
import type { Status } from '../src/core/engine/api.ts'
import { type BenchServer, withServer } from './server.ts'

/**
 * Runs thousands of short agents on one server, spread over a period. At the end the server must hold the same resources as at the beginning.
 * `npm run soak` runs 2,000 agents in ten minutes. The tests run fewer.
 */

export interface Soak {
  readonly agents: number
  readonly durationMs: number
}

export interface Holdings {
  readonly descriptors: number
  readonly rssMiB: number
  readonly rows: number
  readonly processes: number
}

export interface SoakResult {
  readonly agents: number
  readonly seconds: number
  readonly before: Holdings
  readonly after: Holdings
  /** The resources of the server that grew between `before` and `after`. */
  readonly problems: readonly string[]
}

/** Short agents that write output, fail, leave a daemon, run until they are stopped, or play a script. */
const kinds: readonly object[] = [
  { type: 'command', prompt: 'hello', configuration: { command: ['sh', '-c', 'cat; seq 20'] } },
  { type: 'command', prompt: '', configuration: { command: ['sh', '-c', 'echo no >&2; exit 3'] } },
  { type: 'command', prompt: '', configuration: { command: ['sh', '-c', 'setsid sleep 1000 & echo left'] } },
  { type: 'command', prompt: '', configuration: { command: ['sh', '-c', 'echo waits; exec sleep 1000'] } },
  { type: 'synthetic', prompt: 'hello' },
]

/** The number of agents that run at the same time. */
const atOnce = 8

export async function soak({ agents, durationMs }: Soak): Promise<SoakResult> {
  return await withServer(async (server) => {
    const startedMs = performance.now()
    // The first agents load modules and open files that are used once per server. Their memory and descriptors are not a leak.
    const warmUp = Math.min(200, Math.ceil(agents / 4))
    await inBatches(server, 0, warmUp, startedMs, 0)
    const before = await holdings(server)
    await inBatches(server, warmUp, agents, startedMs, durationMs)
    const after = await holdings(server)
    const seconds = Math.round((performance.now() - startedMs) / 1_000)
    return { agents, seconds, before, after, problems: problemsOf(before, after) }
  })
}

async function inBatches(server: BenchServer, from: number, to: number, startedMs: number, durationMs: number): Promise<void> {
  for (let next = from; next < to; next += atOnce) {
    const batch = Array.from({ length: Math.min(atOnce, to - next) }, (_, index) => one(server, next + index))
    await Promise.all(batch)
    // Spreads the agents over the requested duration. This waits for a point in time, because there is no event to wait for.
    const dueMs = startedMs + (durationMs * (next + atOnce)) / to
    if (dueMs > performance.now()) await new Promise<void>((resolve) => setTimeout(resolve, dueMs - performance.now()))
  }
}

/** Launches an agent, waits for its output, and deletes it: some agents after their end, others before it. */
async function one(server: BenchServer, number: number): Promise<void> {
  const { id } = await server.post<{ id: string }>('/api/agents', kinds[number % kinds.length])
  await server.hasMessages(id, 2)
  if (number % 3 === 0) await server.get(`/api/agents/${id}/status?wait=100`)
  await server.remove(id)
}

async function holdings(server: BenchServer): Promise<Holdings> {
  const status = await server.get<Status>('/api/cleanup/status')
  const rss = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${server.pid}/status`, 'utf8'))?.[1]
  return {
    descriptors: readdirSync(`/proc/${server.pid}/fd`).length,
    rssMiB: Math.round(Number(rss) / 1_024),
    rows: status.agentCount + status.messageCount,
    processes: status.runningProcesses,
  }
}

/** The memory of the server may vary by a third or by 64 MiB. A leak per agent exceeds that. */
function problemsOf(before: Holdings, after: Holdings): readonly string[] {
  const flat = (name: keyof Holdings, most: number): string[] =>
    after[name] <= most ? [] : [`${name} grew from ${before[name]} to ${after[name]}`]
  return [
    ...flat('descriptors', before.descriptors + 4),
    ...flat('rssMiB', Math.max(before.rssMiB * 1.33, before.rssMiB + 64)),
    ...flat('rows', 0),
    ...flat('processes', 0),
  ]
}

if (import.meta.main) {
  const [agents = 2_000, minutes = 10] = process.argv.slice(2).map(Number)
  process.stderr.write(`soak: ${agents} agents in about ${minutes} minutes…\n`)
  const result = await soak({ agents, durationMs: minutes * 60_000 })
  console.log(JSON.stringify(result, null, 2))
  console.table({ before: result.before, after: result.after })
  for (const problem of result.problems) console.error(problem)
  process.exit(result.problems.length === 0 ? 0 : 1)
}
