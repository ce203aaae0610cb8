import { describe, expect, it } from 'vitest'
import type { Json } from '../../support/server.ts'
import { useServer } from '../../support/shared-server.ts'

const server = useServer()
const sleeper = { type: 'command', prompt: '', configuration: { command: ['sleep', '1000'] } }
const launchIn = async (body: object, header?: string): Promise<string> =>
  (await server.call('POST', '/api/agents', { body: { ...sleeper, ...body }, ...(header && { headers: { 'x-ebb-namespace': header } }) }))
    .body.id
const namespaceOf = async (id: string): Promise<string> => (await server.get(`/api/agents/${id}`)).namespace

describe('the namespace of a call', () => {
  it('is that of the body, else that of the header, else `default`', async () => {
    expect(await namespaceOf(await launchIn({}))).toBe('default')
    expect(await namespaceOf(await launchIn({}, 'header'))).toBe('header')
    expect(await namespaceOf(await launchIn({ namespace: 'body' }, 'header'))).toBe('body')
    const headers = { 'x-ebb-namespace': 'header' }
    const synthetic = await server.call('POST', '/api/test/agents/synthetic', { body: { prompt: '', schedule: [] }, headers })
    expect(await namespaceOf(synthetic.body.id)).toBe('header')
    expect((await server.call('POST', '/api/requests', { body: { id: 'r' }, headers })).body).toMatchObject({ namespace: 'header' })
    expect((await server.call('GET', '/api/agents', { headers })).body).toHaveLength(2)
    expect((await server.call('GET', '/api/agents?namespace=body', { headers })).body).toHaveLength(1)
    expect((await server.call('GET', '/api/cleanup/status', { headers })).body).toMatchObject({ agentCount: 2 })
  })

  it('is refused when it is malformed, in body, query and header', async () => {
    for (const name of ['a/b', '../x', '.', 'a b', 'x'.repeat(101)]) {
      expect(await server.call('POST', '/api/agents', { body: { ...sleeper, namespace: name } })).toMatchObject({ status: 400 })
      expect(await server.call('GET', '/api/agents', { headers: { 'x-ebb-namespace': name } })).toMatchObject({
        status: 400,
        body: {
          message: expect.stringMatching(/^The header .*: X-Ebb-Namespace must be a name of letters/),
          details: [{ path: 'X-Ebb-Namespace' }],
        },
      })
      expect(await server.call('GET', `/api/cleanup/status?namespace=${encodeURIComponent(name)}`)).toMatchObject({ status: 400 })
    }
    expect(await server.get('/api/agents')).toEqual([])
  })
})

describe('a socket that names a namespace', () => {
  it('receives only the events of that namespace; a socket without one receives all', async () => {
    const one = await server.socket({ namespace: 'one' })
    const two = await server.socket({ namespace: 'two' })
    const all = await server.socket()
    const first = await launchIn({ namespace: 'one' })
    const second = await launchIn({ namespace: 'two' })
    await server.post(`/api/agents/${first}/stop`)
    await server.call('DELETE', `/api/agents/${first}`)
    await server.post('/api/cleanup', { scope: 'single', agentId: second })
    await server.post('/api/test/reset-environment', { namespace: 'two' })
    for (const client of [all, two]) await client.event('cleanup:report', ({ report }) => report.trigger === 'test-reset')
    await all.event('agent:deleted', (event) => event.agentId === first)

    const about = (data: Json): string => data.agentId ?? data.agent?.id ?? data.report?.scope.id ?? data.scope.id
    const received = (events: readonly Json[]): string[] => [
      ...new Set(events.filter(({ name }) => name !== 'connected').map(({ data }) => about(data))),
    ]
    expect(received(two.events)).toEqual([second, 'two'])
    expect(received(all.events)).toEqual([first, second, 'two'])
    expect(received(one.events)).toEqual([first])
    // Progress events are sent only for closes that take some time.
    expect(one.events.map(({ name }) => name).filter((name) => name !== 'cleanup:progress')).toEqual([
      'connected',
      'agent:created',
      'cleanup:started',
      'agent:updated',
      'agent:updated',
      'agent:terminated',
      'cleanup:report',
      'agent:deleted',
    ])
  })

  it('is refused when the name is malformed', async () => {
    for (const namespace of ['a/b', '', 7, {}]) await expect(server.socket({ namespace })).rejects.toThrow('malformed')
  })
})
