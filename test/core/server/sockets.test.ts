import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { io } from 'socket.io-client'
import { describe, expect, it } from 'vitest'
import { temporaryHome } from '../../support/home.ts'
import { mcpOverHttp } from '../../support/mcp.ts'
import { type Client, type Json, remember } from '../../support/server.ts'
import { useServer } from '../../support/shared-server.ts'

const server = useServer(['--stuck-threshold', '100ms'])
const instant = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
const unknown = '6f0f7a2e-9c60-4f6a-9d3c-2f7f0f8f6a11'
const numbers = (client: Client): number[] => client.of('agent:message').map(({ message }: Json) => message.sequenceNumber)
const upTo = (first: number, last: number): number[] => Array.from({ length: last - first + 1 }, (_, index) => first + index)

async function subscribe(client: Client, agentId: string, since?: number): Promise<void> {
  client.socket.emit('subscribe', { agentId, ...(since !== undefined && { since }) })
  await client.event('subscribed', (event) => event.agentId === agentId)
}

describe('a Socket.IO client', () => {
  it('receives `connected`, over websocket and over polling', async () => {
    for (const transport of ['websocket', 'polling']) {
      const client = remember(io(server.url, { transports: [transport], forceNew: true, reconnection: false }))
      expect(await client.event('connected')).toEqual({ clientId: client.socket.id, timestamp: instant })
      client.socket.disconnect()
    }
  })

  it('receives `subscribed` and the events of the agent, and none after it unsubscribed', async () => {
    const client = await server.socket()
    const gate = join(temporaryHome(), 'gate')
    const id = await server.command(['sh', '-c', `echo one; until [ -e ${gate} ]; do sleep 0.01; done; echo two; sleep 1000`])
    await subscribe(client, id)
    expect(client.of('subscribed')).toEqual([{ agentId: id, timestamp: instant }])
    client.socket.emit('unsubscribe', { agentId: id })
    expect(await client.event('unsubscribed')).toEqual({ agentId: id, timestamp: instant })
    writeFileSync(gate, '')
    await server.get(`/api/agents/${id}/messages?since=2&wait=15000`)
    await server.post(`/api/agents/${id}/stop`)
    await client.event('agent:terminated')
    expect(
      client.events
        .map(({ name }) => name)
        .filter((name) => /agent:(message|status|complete|error)/.test(name) && name !== 'agent:message'),
    ).toEqual([])
    expect(numbers(client)).not.toContain(3)
    expect(await server.get('/api/cleanup/status')).toMatchObject({ activeSubscriptions: 0 })
  })

  it('receives only broadcasts when it did not subscribe', async () => {
    const watching = await server.socket()
    const other = await server.socket()
    const gate = join(temporaryHome(), 'gate')
    const id = await server.command(['sh', '-c', `until [ -e ${gate} ]; do sleep 0.01; done; echo one; exit 3`])
    await subscribe(watching, id, 0)
    writeFileSync(gate, '')
    for (const client of [watching, other]) await client.event('agent:terminated')
    const received = new Set(other.events.map(({ name }) => name))
    expect([...received].filter((name) => !name.startsWith('cleanup:'))).toEqual([
      'connected',
      'agent:created',
      'agent:updated',
      'agent:terminated',
    ])
    expect(watching.events.map(({ name }) => name)).toEqual(
      expect.arrayContaining(['agent:message', 'agent:status', 'agent:error', 'agent:complete']),
    )
    const created = other.of('agent:created')[0]
    expect(created).toEqual({ agent: expect.objectContaining({ id, status: 'running', session: expect.any(Object) }), timestamp: instant })
    expect(other.of('agent:updated').at(-1)).toEqual({ agentId: id, status: 'failed', timestamp: instant })
    expect(watching.of('agent:message')[1]).toEqual({
      agentId: id,
      message: expect.objectContaining({ sequenceNumber: 2 }),
      timestamp: instant,
    })
  })

  it('leaves no subscription when it disconnects or vanishes', async () => {
    const id = await server.command(['sleep', '1000'])
    const clients = [await server.socket(), await server.socket()]
    for (const client of clients) await subscribe(client, id)
    // A second subscription of the same client replaces the first.
    for (const client of clients) await subscribe(client, id)
    expect(await server.get('/api/cleanup/status')).toMatchObject({ activeSubscriptions: 2 })
    clients[0]?.socket.disconnect()
    // Ends the connection without a closing packet, as a power cut does.
    const engine = clients[1]?.socket.io.engine as Json
    engine.transport.ws.terminate?.()
    engine.close()
    const left = async (): Promise<number> => (await server.get('/api/cleanup/status')).activeSubscriptions
    const until = performance.now() + 10_000
    while ((await left()) > 0 && performance.now() < until) await server.get('/api/health')
    expect(await left()).toBe(0)
  })

  it('receives `agent:silent` for an agent that stops reporting, unless it is in another namespace', async () => {
    const [everywhere, elsewhere] = await Promise.all([server.socket(), server.socket({ namespace: 'other' })])
    await using mcp = await mcpOverHttp(server.url, { headers: { 'X-Ebb-Namespace': 'mine' } })
    const { task_id } = await mcp.call('create_real_task', { description: 'Silence', client_cwd: temporaryHome() })
    const agent = { provider: 'command', placement: 'process', command: ['sleep', '1000'] }
    const { agent_uuid } = await mcp.call('deploy_headless_agent', { task_id, agent_type: 'a', prompt: 'p', ...agent })
    const silent = { agentId: agent_uuid, taskId: task_id, silentMs: expect.any(Number), timestamp: instant }
    expect(await everywhere.event('agent:silent')).toEqual(silent)
    expect(elsewhere.of('agent:silent')).toEqual([])
  })

  it('receives the report of every cleanup', async () => {
    const client = await server.socket()
    const id = await server.command(['sleep', '1000'])
    const report = await server.post(`/api/agents/${id}/stop`)
    expect(await client.event('cleanup:report')).toEqual({ id: expect.any(String), report, timestamp: instant })
  })
})

describe('a subscription with `since`', () => {
  it('replays the messages after that number when the agent has ended', async () => {
    const id = await server.command(['seq', '1', '2000'])
    await server.get(`/api/agents/${id}/status?wait=15000`)
    for (const since of [0, 1, 1_500, 2_000]) {
      const client = await server.socket()
      client.socket.emit('subscribe', { agentId: id, since })
      await client.event('agent:message', ({ message }) => message.sequenceNumber === 2_001)
      expect(numbers(client)).toEqual(upTo(since + 1, 2_001))
      client.socket.disconnect()
    }
    const late = await server.socket()
    await subscribe(late, id)
    await subscribe(late, id, 2_001)
    expect(numbers(late)).toEqual([])
  })

  it('has no gap and no repeat while the agent writes, whenever the client subscribes', async () => {
    const lines = 20_000
    const allAreHere = join(temporaryHome(), 'all-are-here')
    const write = `i=0; while [ $i -lt 20 ]; do seq 1 ${lines / 20}; i=$((i+1)); sleep 0.02; [ $i -lt 18 ] || until [ -e "$0" ]; do sleep 0.01; done; done`
    const id = await server.command(['sh', '-c', write, allAreHere])
    const clients: { client: Client; since: number }[] = []
    for (const since of [0, 0, 500, 5_000, 0]) {
      const client = await server.socket()
      client.socket.emit('subscribe', { agentId: id, since })
      clients.push({ client, since })
      await server.get(`/api/agents/${id}/messages?since=${clients.length * 2_000}&limit=1&wait=10000`)
    }
    await Promise.all(clients.map(({ client }) => client.event('subscribed')))
    writeFileSync(allAreHere, '')
    for (const { client, since } of clients) {
      await client.event('agent:terminated', (event) => event.agentId === id)
      expect(numbers(client)).toEqual(upTo(since + 1, lines + 1))
      // All messages come before `agent:complete`.
      const last = client.events.findLastIndex(({ name }) => name === 'agent:message')
      expect(client.events.findIndex(({ name }) => name === 'agent:complete')).toBeGreaterThan(last)
    }
  })
})

describe('a bad payload of a socket event', () => {
  it('is answered with an error that names the event, and has no other effect', async () => {
    const client = await server.socket()
    const bad: unknown[] = [
      undefined,
      null,
      7,
      'x',
      [],
      {},
      { agentId: 7 },
      { agentId: 'x' },
      { agentId: '../../etc/passwd' },
      { agentId: unknown, since: -1 },
    ]
    bad.push({ agentId: unknown, since: 'x' }, { agentId: unknown, since: 1.5 }, { agentId: 'y'.repeat(50_000) })
    for (const event of ['subscribe', 'unsubscribe']) {
      for (const payload of bad) {
        if (event === 'unsubscribe' && (payload as Json)?.since !== undefined) continue
        client.events.length = 0
        if (payload === undefined) client.socket.emit(event)
        else client.socket.emit(event, payload)
        const error = await client.event('error')
        expect(error).toMatchObject({ event, message: expect.stringMatching(/\.$/) })
        expect(error).toHaveProperty('agentId')
        expect(JSON.stringify(error).length).toBeLessThan(1_000)
      }
    }
    client.socket.emit('subscribe', { agentId: unknown })
    await client.event('error', (error) => error.agentId === unknown && error.message.includes('no agent'))
    expect(client.of('subscribed')).toEqual([])
    expect(await server.get('/api/cleanup/status')).toMatchObject({ activeSubscriptions: 0 })
  })

  it('does no harm with an acknowledgement, as binary data or for an unknown event', async () => {
    const client = await server.socket()
    const id = await server.command(['sleep', '1000'])
    client.socket.emit('subscribe', () => {})
    client.socket.emit('subscribe', Buffer.from('x'))
    client.socket.emit('launch', { type: 'command' })
    client.socket.emit('agent:deleted', { agentId: id })
    await subscribe(client, id)
    expect(client.of('error')).toHaveLength(2)
    expect(await server.get('/api/agents')).toHaveLength(1)
  })

  it('a payload of a megabyte disconnects its sender and no other client', async () => {
    const client = await server.socket()
    const other = await server.socket()
    const gone = new Promise((resolve) => client.socket.on('disconnect', resolve))
    client.socket.emit('subscribe', { agentId: 'x'.repeat(1_000_000) })
    await gone
    const id = await server.command(['sleep', '1000'])
    await subscribe(other, id)
    expect(await server.get('/api/health')).toMatchObject({ status: 'ok' })
  })
})
