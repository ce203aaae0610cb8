import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Report } from '../src/core/model/report.ts'
import type { Call } from '../test/support/aws/proxy.ts'
import { AwsWorld } from '../test/support/aws/world.ts'
import { knownHomes, removeHomes } from '../test/support/home.ts'
import { median, type Row, timed } from './measure.ts'
import { type BenchServer, withServer } from './server.ts'

/**
 * Measures the close of an agent on ECS (upload, target, task and address) with the emulator and 100 ms added to every call. The baselines are the
 * longest chain of dependent calls, and the same calls made one after the other.
 */

const rounds = 5
const addedMs = 100

export async function benchEcs(): Promise<readonly Row[]> {
  const world = await AwsWorld.start({ startMs: 20, stopMs: 20 })
  try {
    world.becomeEnvironment()
    return await withServer(
      (server) => measure(world, server),
      async (home) => writeFileSync(join(home, 'ebb.config.json'), JSON.stringify({ ecs: world.settings() })),
    )
  } finally {
    await world[Symbol.asyncDispose]()
    // Removes the homes of the runners in the tasks.
    removeHomes([...knownHomes().keys()])
  }
}

async function measure(world: AwsWorld, server: BenchServer): Promise<readonly Row[]> {
  const closes: { readonly tookMs: number; readonly chainMs: number; readonly allMs: number }[] = []
  world.proxy.keepsAsked = true
  for (let round = 0; round < rounds; round++) {
    world.proxy.latencyMs = 0
    const body = {
      type: 'command',
      prompt: 'x',
      placement: 'ecs',
      configuration: { command: ['/bin/sh', '-c', 'echo line; exec sleep 600'] },
    }
    const { id } = await server.post<{ id: string }>('/api/agents', body)
    world.proxy.calls.length = 0
    world.proxy.latencyMs = addedMs
    const tookMs = await timed(async () => {
      const report = await server.post<Report>(`/api/agents/${id}/stop`, {})
      if (!report.success) throw new Error(`The close was not clean: ${report.errors.join('; ')}`)
    })
    const calls = [...world.proxy.calls]
    const allMs = await timed(async () => {
      for (const { asked } of calls) if (asked) await world.proxy.again(asked)
    })
    closes.push({ tookMs, chainMs: longestChain(calls), allMs })
  }
  const took = median(closes.map(({ tookMs }) => tookMs))
  const chain = median(closes.map(({ chainMs }) => chainMs))
  const all = median(closes.map(({ allMs }) => allMs))
  const name = `ECS close, ${addedMs} ms added to every call`
  return [
    { name, baseline: chain, ebb: took, unit: 'ms', claim: 'at most the longest chain of calls + 20 %', kept: took <= chain * 1.2 },
    { name: `${name}, against the same calls one after the other`, baseline: all, ebb: took, unit: 'ms', claim: 'less', kept: took < all },
  ]
}

/**
 * The time in ms of the longest chain of dependent calls. The dependencies are fixed and do not come from the observed order: upload and
 * target in parallel, then the task, then the lease, then the listing of the sweep. Each resource counts with the time during which one of
 * its calls was running. Calls to the agent's runner have no added time and are not counted.
 */
function longestChain(calls: readonly Call[]): number {
  const of = { upload: [] as Call[], target: [] as Call[], task: [] as Call[], lease: [] as Call[], sweep: [] as Call[] }
  const targetEndsMs = Math.max(0, ...calls.filter(isOfTarget).map(({ endedMs }) => endedMs))
  for (const call of calls) of[resourceOf(call, targetEndsMs)].push(call)
  return Math.max(busyMs(of.upload), busyMs(of.target)) + busyMs(of.task) + busyMs(of.lease) + busyMs(of.sweep)
}

const isOfTarget = ({ operation }: Call): boolean => operation === 'DeregisterTargets' || operation === 'DescribeTargetHealth'

/**
 * Assigns a call to a resource by its operation. Calls about the lease and the task before the end of the target belong to the target, which checks
 * who owns its address. Ebb observes lease and task themselves only later.
 */
function resourceOf(call: Call, targetEndsMs: number): 'upload' | 'target' | 'task' | 'lease' | 'sweep' {
  const { operation, about, startedMs } = call
  if (about.includes('/results/') && !about.includes('/leases/')) return 'upload'
  if (operation === 'ListMultipartUploads') return 'upload'
  if (isOfTarget(call) || (startedMs < targetEndsMs && operation !== 'ListTasks')) return 'target'
  if (operation === 'StopTask' || operation === 'DescribeTasks') return 'task'
  if (about.includes('/leases/')) return 'lease'
  if (operation === 'ListTasks') return 'sweep'
  throw new Error(`The call ${operation} of ${about} belongs to no known resource. Add it to resourceOf in bench/ecs.ts.`)
}

/** The time during which at least one of the calls was running. */
function busyMs(calls: readonly Call[]): number {
  let sum = 0
  let untilMs = 0
  for (const { startedMs, endedMs } of [...calls].sort((a, b) => a.startedMs - b.startedMs)) {
    sum += Math.max(0, endedMs - Math.max(startedMs, untilMs))
    untilMs = Math.max(untilMs, endedMs)
  }
  return sum
}
