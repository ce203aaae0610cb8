import { chmodSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { temporaryHome } from '../../support/home.ts'
import { type Client, type Json, startServer } from '../../support/server.ts'
import { useServer } from '../../support/shared-server.ts'
import { survivors } from '../../support/world.ts'

const server = useServer()
const ended = (id: string): Promise<Json> => server.get(`/api/agents/${id}/status?wait=20000`)

/** The events of one agent in the order received, with their statuses and message numbers. */
function eventsOf(client: Client, id: string): string[] {
  return client.events.flatMap(({ name, data }) => {
    if ((data.agentId ?? data.agent?.id) !== id) return []
    if (name === 'agent:status' || name === 'agent:updated') return [`${name} ${data.status}`]
    if (name === 'agent:message') return [`${name} ${data.message.sequenceNumber}`]
    return [name]
  })
}

/** Launches an agent and subscribes to it before it does anything. The agent waits for the file that `go` creates. */
async function watched(script: string): Promise<{ client: Client; id: string; go: () => void }> {
  const gate = join(temporaryHome(), 'gate')
  const client = await server.socket()
  const id = await server.command(['sh', '-c', `until [ -e ${gate} ]; do sleep 0.01; done; ${script}`])
  client.socket.emit('subscribe', { agentId: id })
  await client.event('subscribed')
  return { client, id, go: () => writeFileSync(gate, '') }
}

describe('an agent that ends by itself', () => {
  it('with exit code 0 is completed, and its events come in order', async () => {
    const { client, id, go } = await watched('echo one; echo two')
    go()
    const over = await client.event('agent:terminated', (event) => event.agentId === id)
    expect(over).toEqual({ agentId: id, exitCode: 0, duration: expect.any(Number), timestamp: expect.any(String) })
    expect(eventsOf(client, id).filter((what) => !what.endsWith('stopping'))).toEqual([
      'agent:created',
      'subscribed',
      'agent:message 2',
      'agent:message 3',
      'agent:complete',
      'agent:status completed',
      'agent:updated completed',
      'agent:terminated',
    ])
    expect(client.of('agent:complete')).toEqual([
      { agentId: id, result: { status: 'success', duration: expect.any(Number), messageCount: 3 }, timestamp: expect.any(String) },
    ])
    const agent = await server.get(`/api/agents/${id}`)
    expect(agent).toMatchObject({ status: 'completed', exitCode: 0, session: { messageCount: 3 } })
    expect(agent.error).toBeUndefined()
    expect(Date.parse(agent.completedAt)).toBeGreaterThanOrEqual(Date.parse(agent.startedAt))
  })

  it('with exit code 3 is failed, with the error in its events', async () => {
    const { client, id, go } = await watched('echo one; exit 3')
    go()
    await client.event('agent:terminated', (event) => event.agentId === id && event.exitCode === 3)
    expect(
      eventsOf(client, id)
        .filter((what) => !what.endsWith('stopping'))
        .slice(2),
    ).toEqual(['agent:message 2', 'agent:error', 'agent:complete', 'agent:status failed', 'agent:updated failed', 'agent:terminated'])
    expect(client.of('agent:error')).toEqual([
      { agentId: id, error: { name: 'exit_code', message: expect.stringContaining('3') }, timestamp: expect.any(String) },
    ])
    expect(client.of('agent:complete')).toMatchObject([{ result: { status: 'failed' } }])
    expect(await server.get(`/api/agents/${id}`)).toMatchObject({ status: 'failed', exitCode: 3, error: { name: 'exit_code' } })
  })

  it('by a signal that Ebb did not send is failed', async () => {
    const id = await server.command(['sleep', '1000'])
    const { processes } = await server.get(`/api/agents/${id}/process`)
    process.kill(processes[0].pid, 'SIGKILL')
    expect(await ended(id)).toMatchObject({ status: 'failed' })
    const agent = await server.get(`/api/agents/${id}`)
    expect(agent).toMatchObject({ signal: 'SIGKILL', error: { name: 'signal', message: expect.stringContaining('SIGKILL') } })
    expect(agent.exitCode).toBeUndefined()
  })

  it('leaves no daemon: all are gone at `agent:terminated`', async () => {
    const marker = `daemon-${process.pid}-${Date.now()}`
    const client = await server.socket()
    const script = 'for n in 1 2 3; do setsid nohup sleep 1000 >/dev/null 2>&1 & done; trap "" TERM; (sleep 1000 &) ; exit 0'
    const id = await server.launch({
      type: 'command',
      prompt: '',
      configuration: { command: ['sh', '-c', script], env: { MARKER: marker } },
    })
    await client.event('agent:terminated', (event) => event.agentId === id)
    expect(survivors(marker)).toEqual([])
    expect(await server.get(`/api/agents/${id}`)).toMatchObject({ status: 'completed', exitCode: 0 })
  })

  it('loses none of its last output', async () => {
    const id = await server.command(['sh', '-c', 'seq 1 5000; printf "without an end"'])
    await ended(id)
    const messages = await server.get(`/api/agents/${id}/messages?since=1`)
    expect(messages).toHaveLength(5001)
    expect(messages.at(-1)).toMatchObject({ content: 'without an end', sequenceNumber: 5002 })
  })
})

describe('an agent that is ended', () => {
  it('by a stop: its events come in order, without `agent:complete`', async () => {
    const { client, id, go } = await watched('exec 2>/dev/null; trap "exit 0" TERM; echo ready; while :; do sleep 0.01; done')
    go()
    await client.event('agent:message')
    await server.post(`/api/agents/${id}/stop`)
    await client.event('agent:terminated', (event) => event.agentId === id)
    expect(eventsOf(client, id).slice(2)).toEqual([
      'agent:message 2',
      'agent:status stopping',
      'agent:updated stopping',
      'agent:status terminated',
      'agent:updated terminated',
      'agent:terminated',
    ])
    expect(await server.get(`/api/agents/${id}`)).toMatchObject({ status: 'terminated', exitCode: 0 })
  })

  it('by a deletion: its events come in order, and the subscription ends', async () => {
    const { client, id, go } = await watched('echo ready; exec sleep 1000')
    go()
    await client.event('agent:message')
    await server.call('DELETE', `/api/agents/${id}`)
    await client.event('unsubscribed')
    expect(eventsOf(client, id).slice(2)).toEqual([
      'agent:message 2',
      'agent:status stopping',
      'agent:updated stopping',
      'agent:status terminated',
      'agent:updated terminated',
      'agent:terminated',
      'agent:deleted',
      'unsubscribed',
    ])
  })

  it('by `timeout` is failed with the error `timeout`', async () => {
    const id = await server.command([], { configuration: { command: ['sleep', '1000'], timeout: 150 } })
    expect(await ended(id)).toMatchObject({ status: 'failed' })
    expect(await server.get(`/api/agents/${id}`)).toMatchObject({ error: { name: 'timeout', message: expect.stringContaining('150') } })
  })

  it('by `idleTimeout` is failed; an agent that keeps writing is not ended', async () => {
    const configuration = { command: ['sh', '-c', 'for n in $(seq 20); do echo $n; sleep 0.2; done; sleep 1000'], idleTimeout: 3_000 }
    const id = await server.launch({ type: 'command', prompt: '', configuration })
    expect(await ended(id)).toMatchObject({ status: 'failed' })
    expect(await server.get(`/api/agents/${id}`)).toMatchObject({ error: { name: 'idle_timeout' }, session: { messageCount: 21 } })
  })

  it('by `idleTimeout`: not while it writes, even without line ends', async () => {
    const configuration = { command: ['sh', '-c', 'for n in $(seq 14); do printf .; sleep 0.3; done'], idleTimeout: 3_000 }
    const id = await server.launch({ type: 'command', prompt: '', configuration })
    expect(await ended(id)).toMatchObject({ status: 'completed' })
    expect((await server.get(`/api/agents/${id}/messages`)).at(-1)).toMatchObject({ content: '.'.repeat(14) })
  })

  it('by `limits.logBytes` is failed with the error `output_limit`', async () => {
    const configuration = { command: ['sh', '-c', 'yes "0123456789 0123456789"'], limits: { logBytes: 10_000 } }
    const id = await server.launch({ type: 'command', prompt: '', configuration })
    expect(await ended(id)).toMatchObject({ status: 'failed' })
    const agent = await server.get(`/api/agents/${id}`)
    expect(agent).toMatchObject({ error: { name: 'output_limit', message: expect.stringContaining('its own limits.logBytes') } })
    expect(agent.session.messageCount).toBeLessThan(1_000)
  })

  it('by the limit of messages is failed too', async () => {
    await using own = await startServer(['--limit-messages', '500'])
    const id = await own.command(['sh', '-c', 'yes'])
    expect(await own.get(`/api/agents/${id}/status?wait=15000`)).toMatchObject({ status: 'failed' })
    expect(await own.get(`/api/agents/${id}`)).toMatchObject({
      error: { name: 'output_limit', message: expect.stringMatching(/more than 500 messages.*--limit-messages/) },
    })
  })
})

it('an agent that does not exit after its result is ended after 10 s, with the status of its result', async () => {
  const bin = temporaryHome()
  const claude = join(bin, 'claude')
  // The script prints the output of Claude Code, then runs a tool that keeps it from exiting.
  writeFileSync(
    claude,
    `#!/bin/sh
[ "$1" = --version ] && { echo "9.8.7 (Claude Code)"; exit; }
prompt=$(cat)
echo '{"type":"system","subtype":"init","session_id":"s-1","model":"m"}'
echo "{\\"type\\":\\"assistant\\",\\"message\\":{\\"content\\":[{\\"type\\":\\"text\\",\\"text\\":\\"$prompt indeed\\"}]}}"
echo '{"type":"result","subtype":"success","is_error":false,"result":"done","session_id":"s-1","num_turns":1}'
trap "" TERM INT
exec sleep 1000
`,
  )
  chmodSync(claude, 0o755)
  await using own = await startServer([], { env: { PATH: `${bin}:${process.env.PATH}` } })
  const { providers } = await own.get('/api/providers')
  expect(providers.find((one: Json) => one.type === 'claude-code')).toMatchObject({ isAvailable: true, version: '9.8.7' })
  const client = await own.socket()
  const startedMs = performance.now()
  const id = await own.launch({ type: 'claude-code', prompt: 'hello' })
  client.socket.emit('subscribe', { agentId: id, since: 0 })
  await client.event('agent:message', ({ message }) => message.type === 'response' && message.content === 'done')
  expect(
    client
      .of('agent:message')
      .map(({ message }: Json) => [message.type, message.content])
      .slice(0, 3),
  ).toMatchObject([
    ['user', 'hello'],
    ['system', expect.any(String)],
    ['assistant', 'hello indeed'],
  ])
  expect(await own.get(`/api/agents/${id}`)).toMatchObject({ status: 'running' })
  await client.event('agent:updated', (event) => event.status === 'stopping')
  expect(performance.now() - startedMs).toBeGreaterThan(9_000)
  await own.post(`/api/agents/${id}/stop`, { force: true })
  expect(await own.get(`/api/agents/${id}/status?wait=15000`)).toMatchObject({ status: 'completed' })
  expect(client.of('agent:complete')).toMatchObject([{ result: { status: 'success', messageCount: 4 } }])
})
