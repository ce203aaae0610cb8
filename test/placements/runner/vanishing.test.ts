import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { CutNetwork } from '../../support/cut-network.ts'
import { nodeProgram, temporaryHome } from '../../support/home.ts'
import { leftInHome } from '../../support/ledger-file.ts'
import { needs } from '../../support/real.ts'
import { type Json, startServer, type TestServer } from '../../support/server.ts'
import { agentProcesses, useServer } from '../../support/shared-server.ts'
import { waitUntil } from '../../support/world.ts'
import { RunnerClient, shell } from './client.ts'

/** A client that hangs up or vanishes stops its agent, and the runner is clean afterwards. */

const server = useServer(['--runner'])
const client = (): RunnerClient => new RunnerClient(server.url)

const token = 'a-token-of-the-runner'

async function becomesEmpty({ home, url }: Pick<TestServer, 'home' | 'url'>, withinMs = 15_000, shown?: string): Promise<void> {
  const headers = shown === undefined ? {} : { authorization: `Bearer ${shown}` }
  const left = async (): Promise<readonly string[]> => [
    ...agentProcesses(home),
    ...((await (await fetch(`${url}/api/agents`, { headers })).json()) as Json[]).map((one) => `agent ${one.id}`),
    ...leftInHome(home),
  ]
  await waitUntil(left, withinMs, 'the runner is clean')
}

/** The processor time that a process has used, in ticks of 10 ms: fields 14 and 15 of proc_pid_stat(5). */
function cpuTicks(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return Number(fields[11]) + Number(fields[12])
}

/** The bytes of a request, for tests that handle the connection themselves. */
function call(body: object, host = 'localhost', path = '/agent/stream'): string {
  const text = JSON.stringify(body)
  return `POST ${path} HTTP/1.1\r\nHost: ${host}\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`
}

function raw(): Socket {
  const { hostname, port } = new URL(server.url)
  return connect({ host: hostname, port: Number(port) })
}

/** A small program that streams an agent and prints what it receives. */
const streamingProgram = `
const [url, token, body] = process.argv.slice(1)
const response = await fetch(url + '/agent/stream', {
  method: 'POST', headers: { 'content-type': 'application/json', authorization: 'Bearer ' + token }, body })
for await (const chunk of response.body) process.stdout.write(chunk)
`

/** Resolves when the output contains the text. Later output is discarded. */
function received(stdout: NodeJS.ReadableStream | null, text: string): Promise<void> {
  let all = ''
  return new Promise((resolve, reject) => {
    stdout?.on('data', (chunk: Buffer) => {
      if (all.includes(text)) return
      all += chunk.toString('utf8')
      if (all.includes(text)) resolve()
    })
    stdout?.once('end', () => reject(new Error(`It ended without "${text}": ${all}`)))
  })
}

describe('a streaming client of the runner', () => {
  it('that hangs up stops its agent with all its processes', async () => {
    const stream = await client().stream(shell('echo here; setsid sleep 1000 & sleep 1000'))
    await stream.received(1)
    stream.hangUp()
    await stream.closed
    await becomesEmpty(server)
    expect((await client().status(stream.id)).body).toMatchObject({ process_alive: false })
    expect((await client().stop(stream.id)).status).toBe(200)
  })

  it('that hangs up before the first output stops its agent', async () => {
    const stream = await client().stream(shell('sleep 1000'))
    stream.hangUp()
    await becomesEmpty(server)
  })

  it.each([
    ['end', '/agent/stream'],
    ['resetAndDestroy', '/agent/stream'],
    ['end', '/agent/start'],
    ['resetAndDestroy', '/agent/start'],
  ] as const)('that hangs up during the launch leaves no agent (%s, %s)', async (way, path) => {
    for (let round = 0; round < 5; round++) {
      const socket = raw()
      await new Promise((resolve) => socket.write(call(shell('sleep 1000'), 'localhost', path), resolve))
      socket[way]()
    }
    // The runner may not have read some of the requests yet, so the test waits until no agent is active.
    await waitUntil(async () => (await client().health()).body.active_agents === 0, 15_000, 'no agent is active')
    await becomesEmpty(server)
  })

  it('that is killed stops its agent', async () => {
    const body = JSON.stringify(shell('echo here; sleep 1000'))
    const child = spawn(nodeProgram, ['--input-type=module', '-e', streamingProgram, '--', server.url, '', body], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    await received(child.stdout, 'here')
    child.kill('SIGKILL')
    await becomesEmpty(server)
  })

  it('that does not read delays only itself and costs no memory', { timeout: 120_000 }, async () => {
    const socket = raw()
    // The buffers of the output are outside the heap. The resident set would also contain memory that the allocator has not given back.
    const bufferedBytes = async (): Promise<number> => (await server.get<Json>('/api/health')).memoryUsage.external
    // The agent writes 200 MB. The buffers of the socket take only a few MB.
    const script = 'i=0; while [ $i -lt 200 ]; do head -c 1000000 /dev/zero | tr "\\0" x; echo; i=$((i+1)); done; echo written >&2'
    const order = shell('', { configuration: { command: ['sh', '-c', script], limits: { logBytes: 1_000_000_000 } } })
    const newestStatus = async (): Promise<unknown> => (await server.get<Json[]>('/api/agents'))[0]?.status
    const requireLittle = async (): Promise<void> => {
      const bytes = await bufferedBytes()
      if (bytes > 150_000_000) throw new Error(`The runner buffers ${bytes} bytes for a client that does not read.`)
    }
    socket.pause()
    socket.write(call(order))
    await waitUntil(() => agentProcesses(server.home).length > 0, 15_000, 'the agent runs')
    // The row of the agent stays until its end is delivered. A runner that did not wait for the reader would keep the output in memory.
    await waitUntil(
      async () => {
        await requireLittle()
        return (await newestStatus()) === 'completed'
      },
      90_000,
      'the agent has written everything and ended without a reader',
    )
    // When the runner is idle, a runner that does not wait for its client has read the whole output.
    let idle = { ticks: -1, polls: 0 }
    await waitUntil(
      () => {
        const ticks = cpuTicks(server.ebb.pid)
        idle = { ticks, polls: ticks === idle.ticks ? idle.polls + 1 : 0 }
        return idle.polls >= 10
      },
      30_000,
      'the runner has nothing left to do',
    )
    await requireLittle()
    // The client still gets all of the output when it reads again.
    let bytes = 0
    let checkedAt = 0
    let end = ''
    for await (const chunk of socket) {
      bytes += (chunk as Buffer).length
      if (bytes - checkedAt > 5_000_000) {
        await requireLittle()
        checkedAt = bytes
      }
      end = (end + (chunk as Buffer).toString('latin1')).slice(-100)
      if (end.includes('event: complete')) break
    }
    expect(bytes).toBeGreaterThan(200_000_000)
    await becomesEmpty(server)
  })
})

describe('a client of the runner on another network', () => {
  needs('root', 'ip')

  it('that loses its network stops its agent, although no FIN arrives', { timeout: 120_000 }, async () => {
    using network = new CutNetwork()
    await using runner = await startServer(['--runner', '--host', network.address, '--token', token])
    for (const script of ['echo here; sleep 1000', 'echo here; while :; do head -c 100000 /dev/zero | tr "\\0" x; echo; sleep 0.1; done']) {
      network.mend()
      const body = JSON.stringify(shell(script))
      const child = network.spawnThere([nodeProgram, '--input-type=module', '-e', streamingProgram, '--', runner.url, token, body])
      try {
        await received(child.stdout, 'here')
        expect(agentProcesses(runner.home)).not.toEqual([])
        network.cut()
        await becomesEmpty(runner, 45_000, token)
      } finally {
        child.kill('SIGKILL')
      }
    }
  })

  it('that reads slowly keeps its agent', { timeout: 120_000 }, async () => {
    using network = new CutNetwork()
    await using runner = await startServer(['--runner', '--host', network.address, '--token', token])
    const go = join(temporaryHome(), 'go')
    const slow = `
      import { connect } from 'node:net'
      const [url, request] = process.argv.slice(1)
      const { hostname, port } = new URL(url)
      const socket = connect({ host: hostname, port: Number(port) })
      socket.write(request)
      socket.once('data', (chunk) => { process.stdout.write(chunk); socket.pause() })
      setInterval(() => {}, 1_000) // An unread socket does not keep Node alive.
    `
    const text = call(shell(`while [ ! -e '${go}' ]; do head -c 1000000 /dev/zero | tr "\\0" x; echo; sleep 0.1; done`), network.address)
    const request = text.replace('\r\n', `\r\nAuthorization: Bearer ${token}\r\n`)
    const child = network.spawnThere([nodeProgram, '--input-type=module', '-e', slow, '--', runner.url, request])
    try {
      await received(child.stdout, '200 OK')
      // The wait is longer than the time after which a vanished client is given up. The agent must live during the whole wait.
      const untilMs = performance.now() + 25_000
      await waitUntil(
        () => {
          if (agentProcesses(runner.home).length === 0) throw new Error('The agent of a slow reader was stopped.')
          return performance.now() > untilMs
        },
        40_000,
        'the time is over',
      )
    } finally {
      child.kill('SIGKILL')
    }
    await becomesEmpty(runner, 45_000, token)
  })
})
