import { request } from 'node:http'
import { describe, expect, it } from 'vitest'
import type { Client, Json } from '../../support/server.ts'
import { useServer } from '../../support/shared-server.ts'
import { survivors } from '../../support/world.ts'

const server = useServer()
/** A command that ignores SIGTERM and SIGINT, and prints a line when it ignores them. */
const stubborn = ['sh', '-c', 'trap "" TERM INT; echo ready; while :; do sleep 1000; done']

async function ready(argv: readonly string[], more: object = {}): Promise<string> {
  const id = await server.command(argv, more)
  await server.get(`/api/agents/${id}/messages?since=1&wait=15000`)
  return id
}

const stopping = (client: Client, id: string): Promise<Json> =>
  client.event('agent:updated', (event) => event.agentId === id && event.status === 'stopping')

const steps = (report: Json): string[] =>
  report.resources.find((one: Json) => one.kind === 'process-tree').steps.map((one: Json) => one.step)

describe('POST /agents/:id/stop', () => {
  it('answers with the report of the proven close, and keeps the row', async () => {
    const id = await server.command(['sleep', '1000'])
    const report = await server.post(`/api/agents/${id}/stop`)
    expect(report).toMatchObject({
      success: true,
      trigger: 'terminated',
      scope: { kind: 'agent', id },
      startedAt: expect.any(String),
      duration: expect.any(Number),
      cleanedAgentsCount: 1,
      errors: [],
      gaveUp: [],
    })
    expect(report.resources.map((one: Json) => [one.kind, one.outcome])).toEqual([
      ['process-tree', 'released'],
      ['log', 'released'],
      ['log', 'released'],
      ['temp-folder', 'released'],
    ])
    expect(report.resources[0]).toMatchObject({
      steps: [{ step: 'terminate', at: expect.any(String), took: expect.any(Number) }],
      proof: { method: expect.any(String), strength: 'kernel', at: expect.any(String) },
    })
    expect(await server.get(`/api/agents/${id}`)).toMatchObject({ status: 'terminated', signal: 'SIGTERM' })
  })

  it('agent that was stopped or has ended: the answer is the report of the first close', async () => {
    const stopped = await server.command(['sleep', '1000'])
    const first = await server.post(`/api/agents/${stopped}/stop`)
    expect(await server.post(`/api/agents/${stopped}/stop`, { force: true })).toEqual(first)
    const completed = await server.command(['true'])
    await server.get(`/api/agents/${completed}/status?wait=15000`)
    const own = await server.post(`/api/agents/${completed}/stop`)
    expect(own).toMatchObject({ success: true, trigger: 'completed', scope: { id: completed } })
    expect(await server.get(`/api/agents/${completed}`)).toMatchObject({ status: 'completed' })
  })

  it('with force kills at once', async () => {
    const id = await ready(stubborn)
    const report = await server.post(`/api/agents/${id}/stop`, { force: true })
    expect(report).toMatchObject({ success: true })
    expect(steps(report)).toEqual(['kill'])
  })

  it('gives an agent the requested grace, then kills it', async () => {
    const id = await ready(stubborn)
    const report = await server.post(`/api/agents/${id}/stop`, { grace: 400 })
    expect(steps(report)).toEqual(['terminate', 'kill'])
    expect(report.resources[0].steps[0].took).toBeGreaterThanOrEqual(399)
    // The grace is 5 s when the request names none.
    expect(report.resources[0].steps[0].took).toBeLessThan(5_000)
    expect(await server.get(`/api/agents/${id}`)).toMatchObject({ status: 'terminated', signal: 'SIGKILL' })
  })

  it('with force joins a stop that waits, and both callers get the same report', async () => {
    const client = await server.socket()
    const id = await ready(stubborn)
    const patient = server.post(`/api/agents/${id}/stop`, { grace: 30_000 })
    await stopping(client, id)
    const hurried = await server.post(`/api/agents/${id}/stop`, { force: true })
    expect(await patient).toEqual(hurried)
    expect(hurried.duration).toBeLessThan(30_000)
  })

  it('agent that exits with 0 on SIGTERM: its status is `terminated`', async () => {
    const id = await ready(['sh', '-c', 'trap "exit 0" TERM; echo ready; while :; do sleep 0.01; done'])
    await server.post(`/api/agents/${id}/stop`)
    const agent = await server.get(`/api/agents/${id}`)
    expect(agent).toMatchObject({ status: 'terminated', exitCode: 0 })
    expect(agent.error).toBeUndefined()
  })

  it('goes on when its caller hangs up', async () => {
    const marker = `hang-up-${process.pid}-${Date.now()}`
    const id = await ready(stubborn, { configuration: { command: stubborn, env: { MARKER: marker } } })
    const client = await server.socket()
    const call = request(`${server.url}/api/agents/${id}/stop`, { method: 'POST', headers: { 'content-type': 'application/json' } })
    call.on('error', () => {})
    call.end(JSON.stringify({ grace: 2_000 }))
    await stopping(client, id)
    call.destroy()
    expect(await server.get(`/api/agents/${id}/status?wait=15000`)).toMatchObject({ status: 'terminated' })
    expect(survivors(marker)).toEqual([])
  })

  it('unknown agent: 404; bad body: 400', async () => {
    const id = await server.command(['sleep', '1000'])
    const unknown = '6f0f7a2e-9c60-4f6a-9d3c-2f7f0f8f6a11'
    expect(await server.call('POST', `/api/agents/${unknown}/stop`)).toMatchObject({ status: 404, body: { code: 'agent_not_found' } })
    for (const body of [{ force: 'yes' }, { grace: -1 }, { grace: '5s' }, { grace: 1e12 }, []])
      expect(await server.call('POST', `/api/agents/${id}/stop`, { body })).toMatchObject({
        status: 400,
        body: { code: 'invalid_request' },
      })
    expect(await server.get(`/api/agents/${id}/status`)).toMatchObject({ status: 'running' })
  })
})

it('POST /agents/:id/stop: a stop of a parent does not stop its children', async () => {
  const parent = await server.command(['sleep', '1000'])
  const child = await server.command(['sleep', '1000'], { parentAgentId: parent })
  await server.post(`/api/agents/${parent}/stop`)
  expect(await server.get(`/api/agents/${child}`)).toMatchObject({ status: 'running', parentAgentId: parent })
})
