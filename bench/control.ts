import { execFileSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { closeSync, openSync, readFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { realClock } from '../src/host/clock.ts'
import { openSqliteStore } from '../src/store/sqlite/store.ts'
import { median, type Row, sideBySide, timed } from './measure.ts'
import { populated, rawStart, rawStop } from './raw.ts'
import { type BenchServer, reset, withServer } from './server.ts'

/** The claims about the control plane, measured from another process over HTTP and sockets. */

export async function benchReset(): Promise<readonly Row[]> {
  return await withServer(async (server) => {
    const stop = await sideBySide(
      20,
      async () => {
        const tree = rawStart(['sleep', '1000'])
        await populated(tree.directory, 1)
        return await timed(() => rawStop(tree))
      },
      async () => {
        const id = await server.launch(['sleep', '1000'])
        return await timed(() => server.remove(id))
      },
    )
    const resets: number[] = []
    for (let round = 0; round < 10; round++) {
      // The 5 prompts and the 122 lines of the five agents make 127 messages.
      const lines = [25, 25, 24, 24, 24]
      const ids = await Promise.all(lines.map((count) => server.launch(['sh', '-c', `seq ${count}; exec sleep 1000`])))
      await Promise.all(ids.map((id, index) => server.hasMessages(id, 1 + (lines[index] ?? 0))))
      resets.push(await timed(() => reset(server)))
    }
    const full = median(resets)
    return [
      {
        name: 'DELETE of a running agent, proven, rows gone',
        ...stop,
        unit: 'ms',
        claim: 'raw + 25 ms',
        kept: stop.ebb <= stop.baseline + 25,
      },
      {
        name: 'reset of 5 running agents with 127 messages',
        baseline: 1_160,
        ebb: full,
        unit: 'ms',
        claim: 'under 100 ms (baseline: a reset with fixed delays)',
        kept: full < 100,
      },
    ]
  })
}

const streamed = 400_000

export async function benchMessages(): Promise<readonly Row[]> {
  return await withServer(async (server) => {
    const saved = await rate(async () => {
      const id = await server.launch(writes(streamed))
      return { id, done: server.hasMessages(id, streamed + 1) }
    }, server)
    const delivered = await rate(async () => {
      const { promise, resolve } = Promise.withResolvers<void>()
      const id = await server.launch(['sh', '-c', `read -r _; ${writes(streamed)[2]}`, 'sh'], 'go\n')
      let next = 1
      await server.follow(id, 0, ({ sequenceNumber }) => {
        if (sequenceNumber !== next) throw new Error(`Message ${next} was expected, but message ${sequenceNumber} arrived.`)
        next += 1
        if (sequenceNumber === streamed + 1) resolve()
      })
      return { id, done: promise }
    }, server)
    const latency = await lineLatency(server)
    const rssMiB = residentMiB(server.pid)
    return [
      { name: `messages saved, of ${streamed}`, ebb: saved, unit: '/s', claim: 'at least 100,000/s', kept: saved >= 100_000 },
      {
        name: `messages saved and delivered, of ${streamed}`,
        ebb: delivered,
        unit: '/s',
        claim: 'at least 20,000/s',
        kept: delivered >= 20_000,
      },
      { name: 'memory of the server after both', ebb: rssMiB, unit: 'MiB', claim: 'under 512 MiB', kept: rssMiB < 512 },
      { name: 'one line, written to received', ebb: latency, unit: 'ms', claim: 'p50 under 5 ms', kept: latency < 5 },
    ]
  })
}

const writes = (lines: number): readonly string[] => [
  'sh',
  '-c',
  `seq -f 'line %.0f of a conversation, about as long as they are' ${lines}; exec sleep 1000`,
]

/** Messages per second from the first line to the last, without the launch. */
async function rate(start: () => Promise<{ id: string; done: Promise<void> }>, server: BenchServer): Promise<number> {
  const { id, done } = await start()
  const startedMs = performance.now()
  await done
  const perSecond = streamed / ((performance.now() - startedMs) / 1_000)
  await server.remove(id)
  return perSecond
}

async function lineLatency(server: BenchServer): Promise<number> {
  const fifo = join(server.home, 'latency')
  execFileSync('mkfifo', [fifo])
  const id = await server.launch(['sh', '-c', 'exec cat <"$0"', fifo])
  const fd = openSync(fifo, 'w')
  let arrived = (): void => {}
  await server.follow(id, 1, () => arrived())
  const times: number[] = []
  for (let round = 0; round < 200; round++) {
    const received = new Promise<void>((resolve) => {
      arrived = resolve
    })
    times.push(
      await timed(async () => {
        writeSync(fd, `line ${round}\n`)
        await received
      }),
    )
  }
  closeSync(fd)
  await server.remove(id)
  return median(times)
}

/** The resident memory of a process, from proc_pid_status(5). */
function residentMiB(pid: number): number {
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? Number.NaN) / 1_024
}

export async function benchListing(): Promise<readonly Row[]> {
  return await withServer(async (server) => {
    const all: number[] = []
    const page: number[] = []
    for (let round = 0; round < 15; round++) {
      all.push(await timed(() => server.text('/api/agents')))
      page.push(await timed(() => server.text('/api/agents?limit=50')))
    }
    return [
      { name: 'GET /api/agents, 10,000 rows', ebb: median(all), unit: 'ms', claim: 'under 60 ms', kept: median(all) < 60 },
      { name: 'GET /api/agents?limit=50 of 10,000', ebb: median(page), unit: 'ms', claim: 'under 5 ms', kept: median(page) < 5 },
    ]
  }, tenThousandAgents)
}

async function tenThousandAgents(home: string): Promise<void> {
  const { ledger, agents } = await openSqliteStore({ file: join(home, 'ebb.db'), clock: realClock })
  await Promise.all(
    Array.from({ length: 10_000 }, async (_, index) => {
      const id = randomUUID()
      const createdAt = realClock.wall()
      const configuration = { workingDirectory: '/srv/project', conversationName: `conversation ${index}` }
      const prompt = `Find out why test number ${index} is flaky, and fix it`
      const row = {
        id,
        type: 'command',
        placement: 'process',
        namespace: 'default',
        prompt,
        configuration,
        incarnation: 'earlier',
        createdAt,
      }
      await ledger.open({ scopes: [], rows: [agents.newAgent(row, { id: randomUUID(), type: 'user', content: prompt })] })
      await agents.change(id, { status: 'running', startedAt: createdAt })
    }),
  )
  await ledger[Symbol.asyncDispose]()
}

export async function benchCrowd(): Promise<readonly Row[]> {
  return await withServer(async (server) => {
    await server.text('/metrics') // Reading the metrics resets the maximum of the event loop delay.
    const count = 200
    const launched = await timed(() =>
      Promise.all(Array.from({ length: count }, () => server.launch(['sh', '-c', 'echo ready; exec sleep 1000']))),
    )
    const delayMs = 1_000 * Number(/^nodejs_eventloop_lag_max_seconds (\S+)$/m.exec(await server.text('/metrics'))?.[1] ?? Number.NaN)
    await reset(server)
    return [
      { name: `${count} agents launched at once`, ebb: launched, unit: 'ms', claim: '', kept: true },
      {
        name: 'longest delay of the event loop during these launches',
        ebb: delayMs,
        unit: 'ms',
        claim: 'at most 100 ms',
        kept: delayMs <= 100,
      },
    ]
  })
}
