import { describe, expect, it } from 'vitest'
import { temporaryHome } from '../../support/home.ts'
import { leftInHome } from '../../support/ledger-file.ts'
import { needs } from '../../support/real.ts'
import { type Json, startServer, type TestServer } from '../../support/server.ts'
import { agentProcesses } from '../../support/shared-server.ts'
import { seen, waitUntil } from '../../support/world.ts'
import { RunnerClient, shell } from './client.ts'

/**
 * The runner under the weaker containments, with an agent that sheds our mark: `env -i` takes the cookie away, so nothing is
 * found by it. Whether such an agent lives is for its tree to say.
 */

/** It tells its pid, and goes on under it without a single variable. */
const unmarked = 'echo $$; exec env -i sleep 1000'

async function becomesEmpty(server: TestServer): Promise<void> {
  const look = async (): Promise<readonly string[]> => [
    ...agentProcesses(server.home),
    ...(await server.get<Json[]>('/api/agents')).map((one) => `agent ${one.id}`),
    ...leftInHome(server.home),
  ]
  await waitUntil(look, 15_000, 'nothing of the agents of the runner is left')
}

describe.each(['subreaper', 'scan'] as const)('under the containment %s', (containment) => {
  needs(containment)
  const words = ['--runner', '--containment', containment]

  it('an agent without our mark is alive until it is stopped, and then it is gone', async () => {
    await using server = await startServer(words)
    const client = new RunnerClient(server.url)
    const stream = await client.stream(shell(unmarked))
    await stream.heard(1)
    const pid = Number(stream.lines[0])
    await waitUntil(() => seen(pid)?.command === 'sleep', 15_000, 'the agent has shed its mark')
    expect((await client.status(stream.id)).body).toMatchObject({ process_alive: true, exit_code: null })
    expect((await client.health()).body).toMatchObject({ active_agents: 1 })
    expect((await client.stop(stream.id)).body).toEqual({ status: 'stopped', agent_id: stream.id })
    expect(seen(pid)).toBeUndefined()
    await stream.over
    expect((await client.status(stream.id)).body).toMatchObject({ process_alive: false })
    await becomesEmpty(server)
  })

  it('who hangs up has stopped an agent without our mark', async () => {
    await using server = await startServer(words)
    const client = new RunnerClient(server.url)
    const stream = await client.stream(shell(unmarked))
    await stream.heard(1)
    const pid = Number(stream.lines[0])
    await waitUntil(() => seen(pid)?.command === 'sleep', 15_000, 'the agent has shed its mark')
    stream.hangUp()
    await waitUntil(() => seen(pid) === undefined, 15_000, 'the agent is gone')
    await becomesEmpty(server)
  })

  it('a control plane that looks at an agent without our mark sees it alive, and does not end it by looking', async () => {
    await using runner = await startServer(words)
    await using server = await startServer(['--remote-url', runner.url])
    const configuration = { command: ['sh', '-c', unmarked] }
    const id = await server.launch({ type: 'command', placement: 'remote', prompt: '', configuration })
    const [said]: Json[] = await server.get(`/api/agents/${id}/messages?since=1&wait=15000`)
    const pid = Number(said.content)
    await waitUntil(() => seen(pid)?.command === 'sleep', 15_000, 'the agent has shed its mark')
    // A look that hung up would have done so by the end of the third.
    for (let look = 0; look < 3; look++)
      expect(await server.get(`/api/agents/${id}/process`)).toMatchObject({ process_alive: true, exit_code: null })
    expect(seen(pid)).toBeDefined()
    const report = await server.post(`/api/agents/${id}/stop`)
    expect(report).toMatchObject({ success: true, errors: [] })
    // It was alive, so it was asked to leave: a proof without a step would be one of something else.
    expect(report.resources[0]).toMatchObject({ kind: 'remote-agent', steps: [{ step: 'terminate' }] })
    expect(seen(pid)).toBeUndefined()
    await becomesEmpty(runner)
  })

  it('everything that an agent started is gone with it', async () => {
    await using server = await startServer(words)
    const client = new RunnerClient(server.url)
    const stream = await client.stream(shell('trap "" TERM; setsid sleep 1000 & echo here; while :; do sleep 1000; done'))
    await stream.heard(1)
    expect((await client.stop(stream.id)).status).toBe(200)
    expect(agentProcesses(server.home)).toEqual([])
    await stream.over
    expect(stream.last?.name).toBe('error')
    await becomesEmpty(server)
  })

  it('a runner that is killed has ended its agents when the next one says so', async () => {
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
