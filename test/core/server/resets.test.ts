import { randomUUID } from 'node:crypto'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { requireWhole, statusAtEnd } from '../../support/conversation.ts'
import { leftInHome, openBooks } from '../../support/ledger-file.ts'
import type { Client, Json } from '../../support/server.ts'
import { agentProcesses, useServer } from '../../support/shared-server.ts'

/** Resets during other work. After each one the test observes the system itself, then asks the server. */

const server = useServer()
const reset = async (body: object = {}): Promise<Json> => {
  const answer = await server.call('POST', '/api/test/reset-environment', { body })
  expect(answer.status).toBe(200)
  return answer.body
}

async function requireClean(): Promise<void> {
  expect(agentProcesses(server.home)).toEqual([])
  expect(leftInHome(server.home)).toEqual([])
  expect(readdirSync(join(server.home, 'archive'))).toEqual([])
  expect(openBooks(server.home)).toEqual([expect.stringMatching(/^incarnation /)])
  expect(await server.get('/api/test/verify-clean-state')).toEqual({
    isClean: true,
    issues: [],
    agentCount: 0,
    messageCount: 0,
    runningProcesses: 0,
    activeSubscriptions: 0,
  })
}

/** An agent that writes `lines` lines, and then stays or ends. */
async function writer(lines: number, isStaying: boolean, more: object = {}): Promise<string> {
  const id = await server.command(['sh', '-c', `seq 1 ${lines}; ${isStaying ? 'exec sleep 1000' : ''}`], more)
  if (isStaying) await server.get(`/api/agents/${id}/messages?since=${lines}&limit=1&wait=15000`)
  else await statusAtEnd(server, id)
  return id
}

const about = (client: Client, id: string): readonly { name: string; data: Json }[] =>
  client.events.filter(({ data }) => (data.agentId ?? data.agent?.id) === id)

/** Waits until all events that were sent before this call have arrived. */
async function receivedAll(client: Client): Promise<void> {
  const agentId = randomUUID()
  client.socket.emit('unsubscribe', { agentId })
  await client.event('unsubscribed', (event) => event.agentId === agentId)
}

describe('a reset during live streams', () => {
  it('sends fifty subscribers the end of their agents, and nothing after it', async () => {
    const endless = ['sh', '-c', 'i=0; while :; do i=$((i+1)); echo $i; [ $((i % 10)) = 0 ] && sleep 0.1; done']
    const ids = [await server.command(endless), await server.command(endless, { namespace: 'other' })]
    const clients = await Promise.all(Array.from({ length: 50 }, () => server.socket()))
    const subscribe = (client: Client, agentId: string, more: object): Promise<Json> => {
      client.socket.emit('subscribe', { agentId, ...more })
      return client.event('subscribed', (event) => event.agentId === agentId)
    }
    // A fifth of the clients subscribe to both agents. Half of the clients subscribe from the first message on.
    const wanted = clients.flatMap((client, index) =>
      ids
        .filter((_, which) => index % 5 === 0 || index % 2 === which)
        .map((id) => subscribe(client, id, index % 4 < 2 ? { since: 0 } : {})),
    )
    await Promise.all([...wanted, ...clients.map((client) => client.event('agent:message'))])
    const { activeSubscriptions } = await server.get('/api/cleanup/status')
    expect([activeSubscriptions, wanted.length]).toEqual([60, 60])

    const report = await reset()
    expect(report).toMatchObject({ success: true, errors: [], cleanedAgentsCount: 2 })
    await requireClean()

    let watched = 0
    for (const client of clients) {
      await receivedAll(client)
      expect(client.of('cleanup:report').map((event) => event.report)).toEqual([report])
      for (const id of ids) {
        const received = about(client, id)
        const names = received.map(({ name }) => name)
        // The events that are broadcast to all clients, in the order of docs/in-depth/server.md.
        expect(names.filter((name) => /updated|terminated|deleted/.test(name))).toEqual([
          'agent:updated',
          'agent:updated',
          'agent:terminated',
          'agent:deleted',
        ])
        expect(received.filter(({ name }) => name === 'agent:updated').map(({ data }) => data.status)).toEqual(['stopping', 'terminated'])
        const isSubscriber = names.includes('subscribed')
        expect(names.filter((name) => name === 'unsubscribed')).toHaveLength(isSubscriber ? 1 : 0)
        if (!isSubscriber) continue
        watched += 1
        expect(names.filter((name) => name !== 'agent:message')).toEqual([
          'subscribed',
          'agent:status',
          'agent:updated',
          'agent:status',
          'agent:updated',
          'agent:terminated',
          'agent:deleted',
          'unsubscribed',
        ])
        expect(names.lastIndexOf('agent:message')).toBeLessThan(names.lastIndexOf('agent:status'))
        const messages = received.filter(({ name }) => name === 'agent:message').map(({ data }) => data.message)
        requireWhole(messages, messages[0]?.sequenceNumber)
      }
    }
    expect(watched).toBe(activeSubscriptions)
  })
})

describe('twenty concurrent resets', () => {
  it('join, or find nothing to do: each agent is counted once and sent once', async () => {
    const client = await server.socket()
    const living = [30, 40, 50, 60, 70]
    const ended = [5, 6, 7]
    await Promise.all([...living.map((lines) => writer(lines, true)), ...ended.map((lines) => writer(lines, false))])
    const reports = await Promise.all(Array.from({ length: 20 }, (_, index) => reset(index % 4 === 3 ? { force: true } : {})))
    await requireClean()
    for (const report of reports) expect(report).toMatchObject({ success: true, errors: [], gaveUp: [] })
    // Resets that arrived while the first one ran share its report. A reset that came later has its own report, of an empty system.
    const [first, ...later] = [...new Map(reports.map((report) => [JSON.stringify(report), report])).values()].toSorted((one, other) =>
      one.startedAt.localeCompare(other.startedAt),
    )
    const messages = [...living, ...ended].reduce((sum, lines) => sum + lines + 1, 0)
    expect(first).toMatchObject({ cleanedAgentsCount: 8, cleanedMessagesCount: messages })
    expect(first.resources).toHaveLength(4 * living.length)
    for (const report of later) expect(report).toMatchObject({ cleanedAgentsCount: 0, cleanedMessagesCount: 0, resources: [] })
    expect(later.length).toBeLessThan(19)
    await receivedAll(client)
    const sent = client.of('cleanup:report').map(({ report }) => report)
    expect(sent.filter(({ trigger }) => trigger === 'test-reset')).toEqual([first, ...later])
    const history: Json[] = await server.get('/api/cleanup/history')
    expect(history.filter(({ startedAt }) => startedAt >= first.startedAt)).toHaveLength(1 + later.length)
    expect(client.of('agent:deleted')).toHaveLength(8)
  })

  it('resets of everything and of single namespaces all succeed, and the namespaces are open again', async () => {
    const names = ['one', 'two', 'three']
    const client = await server.socket()
    await Promise.all(names.flatMap((namespace) => [writer(10, true, { namespace }), writer(10, false, { namespace })]))
    const requests = Array.from({ length: 20 }, (_, index) => ({
      ...(index % 4 !== 0 && { namespace: names[(index % 4) - 1] }),
      force: index % 3 === 0,
    }))
    for (const report of await Promise.all(requests.map((body) => reset(body)))) expect(report).toMatchObject({ success: true, errors: [] })
    await requireClean()
    await receivedAll(client)
    // Each agent was deleted once, although several resets took part.
    const gone = client.of('agent:deleted').map(({ agentId }) => agentId)
    expect([gone.length, new Set(gone).size]).toEqual([6, 6])
    for (const namespace of names) await writer(1, true, { namespace })
    expect(await reset({ force: true })).toMatchObject({ success: true, cleanedAgentsCount: 3, cleanedMessagesCount: 6 })
    await requireClean()
  })
})

describe('resets during launches', () => {
  it('delete every launched agent exactly once', async () => {
    const client = await server.socket()
    const launched: string[] = []
    const refused: string[] = []
    const isOver = new AbortController()
    const launch = async (turn: number): Promise<void> => {
      for (let n = turn; !isOver.signal.aborted; n++) {
        const body = { type: 'command', prompt: '', configuration: { command: n % 3 === 0 ? ['true'] : ['sleep', '1000'] } }
        const { status, body: answer } = await server.call<Json>('POST', '/api/agents', { body })
        if (status === 201) launched.push(answer.id)
        else refused.push(`${status} ${answer.code}`)
      }
    }
    const launches = Promise.all([0, 1, 2, 3].map(launch))
    const reports: Json[] = []
    for (let n = 0; n < 8; n++) {
      const known = client.of('agent:created').length
      await client.event('agent:created', () => client.of('agent:created').length > known + (n % 3))
      reports.push(await reset())
    }
    isOver.abort()
    await launches
    reports.push(await reset())
    await requireClean()
    await receivedAll(client)
    for (const report of reports) expect(report).toMatchObject({ success: true, errors: [] })
    expect(new Set(refused)).toEqual(new Set(refused.length > 0 ? ['409 resetting'] : []))
    const created = client.of('agent:created').map(({ agent }) => agent.id)
    const deleted = client.of('agent:deleted').map(({ agentId }) => agentId)
    expect(created).toEqual(expect.arrayContaining(launched))
    expect(new Set(deleted).size).toBe(deleted.length)
    expect(deleted.toSorted()).toEqual(created.toSorted())
    expect(reports.reduce((sum, { cleanedAgentsCount }) => sum + cleanedAgentsCount, 0)).toBeGreaterThanOrEqual(launched.length)
    for (const id of created) expect(about(client, id).at(-1)?.name).toBe('agent:deleted')
  })

  it('resets of another namespace do not touch the launches', async () => {
    const client = await server.socket()
    await writer(1, true, { namespace: 'theirs' })
    const resets = Promise.all(Array.from({ length: 5 }, () => reset({ namespace: 'theirs' })))
    const mine = await Promise.all(Array.from({ length: 6 }, () => server.command(['sleep', '1000'], { namespace: 'mine' })))
    await resets
    expect((await server.get('/api/agents?namespace=mine')).map(({ id, status }: Json) => [id, status]).toSorted()).toEqual(
      mine.map((id) => [id, 'running']).toSorted(),
    )
    await receivedAll(client)
    expect(client.of('agent:deleted')).toHaveLength(1)
    expect(await reset()).toMatchObject({ success: true, cleanedAgentsCount: 6 })
    await requireClean()
  })
})
