import { describe, expect, it } from 'vitest'
import { temporaryHome } from '../../support/home.ts'
import { leftInHome } from '../../support/ledger-file.ts'
import { needs } from '../../support/real.ts'
import { type Json, startServer, type TestServer } from '../../support/server.ts'
import { agentProcesses } from '../../support/shared-server.ts'
import { seen, waitUntil } from '../../support/world.ts'
import { RunnerClient, shell } from './client.ts'

/**
 * Tests the runner under the weaker containments. The agent removes its environment tag by `env -i`, so a scan for the tag does not find
 * the agent. Its process tree still shows whether it lives.
 */

/** A script that prints its pid, then runs on with that pid and an empty environment. */
const untagged = 'echo $$; exec env -i sleep 1000'

async function becomesEmpty(server: TestServer): Promise<void> {
  const left = async (): Promise<readonly string[]> => [
    ...agentProcesses(server.home),
    ...(await server.get<Json[]>('/api/agents')).map((one) => `agent ${one.id}`),
    ...leftInHome(server.home),
  ]
  await waitUntil(left, 15_000, 'nothing of the agents of the runner is left')
}

describe.each(['subreaper', 'scan'] as const)('under the containment %s', (containment) => {
  needs(containment)
  const words = ['--runner', '--containment', containment]

  it('an agent without its environment tag is alive until it is stopped, and then gone', async () => {
    await using server = await startServer(words)
    const client = new RunnerClient(server.url)
    const stream = await client.stream(shell(untagged))
    await stream.received(1)
    const pid = Number(stream.lines[0])
    await waitUntil(() => seen(pid)?.command === 'sleep', 15_000, 'the agent has removed its tag')
    expect((await client.status(stream.id)).body).toMatchObject({ process_alive: true, exit_code: null })
    expect((await client.health()).body).toMatchObject({ active_agents: 1 })
    expect((await client.stop(stream.id)).body).toEqual({ status: 'stopped', agent_id: stream.id })
    expect(seen(pid)).toBeUndefined()
    await stream.closed
    expect((await client.status(stream.id)).body).toMatchObject({ process_alive: false })
    await becomesEmpty(server)
  })

  it('a client that hangs up stops an agent without its environment tag', async () => {
    await using server = await startServer(words)
    const client = new RunnerClient(server.url)
    const stream = await client.stream(shell(untagged))
    await stream.received(1)
    const pid = Number(stream.lines[0])
    await waitUntil(() => seen(pid)?.command === 'sleep', 15_000, 'the agent has removed its tag')
    stream.hangUp()
    await waitUntil(() => seen(pid) === undefined, 15_000, 'the agent is gone')
    await becomesEmpty(server)
  })

  it('a control plane observes an agent without its environment tag as alive, and does not end it thereby', async () => {
    await using runner = await startServer(words)
    await using server = await startServer(['--remote-url', runner.url])
    const configuration = { command: ['sh', '-c', untagged] }
    const id = await server.launch({ type: 'command', placement: 'remote', prompt: '', configuration })
    const [first]: Json[] = await server.get(`/api/agents/${id}/messages?since=1&wait=15000`)
    const pid = Number(first.content)
    await waitUntil(() => seen(pid)?.command === 'sleep', 15_000, 'the agent has removed its tag')
    // The status is requested three times. A status request that ended the agent would show by the third time.
    for (let round = 0; round < 3; round++)
      expect(await server.get(`/api/agents/${id}/process`)).toMatchObject({ process_alive: true, exit_code: null })
    expect(seen(pid)).toBeDefined()
    const report = await server.post(`/api/agents/${id}/stop`)
    expect(report).toMatchObject({ success: true, errors: [] })
    // The agent was alive, so the close needed a step of the ladder.
    expect(report.resources[0]).toMatchObject({ kind: 'remote-agent', steps: [{ step: 'terminate' }] })
    expect(seen(pid)).toBeUndefined()
    await becomesEmpty(runner)
  })

  it('a stop ends every process that the agent started', async () => {
    await using server = await startServer(words)
    const client = new RunnerClient(server.url)
    const stream = await client.stream(shell('trap "" TERM; setsid sleep 1000 & echo here; while :; do sleep 1000; done'))
    await stream.received(1)
    expect((await client.stop(stream.id)).status).toBe(200)
    expect(agentProcesses(server.home)).toEqual([])
    await stream.closed
    expect(stream.last?.name).toBe('error')
    await becomesEmpty(server)
  })

  it('after SIGKILL of a runner, a stop at the next runner proves that the agent is gone', async () => {
    const home = temporaryHome()
    const server = await startServer(words, { home })
    const { body } = await new RunnerClient(server.url).start(shell('sleep 1000'))
    server.ebb.signal('SIGKILL')
    await server.ebb.ended
    await using again = await startServer(words, { home })
    const client = new RunnerClient(again.url)
    expect((await client.stop(body.agent_id)).status).toBe(200)
    expect(agentProcesses(home)).toEqual([])
    expect((await client.status(body.agent_id)).body).toMatchObject({ process_alive: false })
    await becomesEmpty(again)
  })
})
