import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { io } from 'socket.io-client'
import { expect, it } from 'vitest'
import { Events } from '../../../../src/agents/events.ts'
import { Subscriptions } from '../../../../src/agents/subscriptions.ts'
import type { Control } from '../../../../src/control.ts'
import { EbbError } from '../../../../src/core/model/errors.ts'
import type { AgentRecord } from '../../../../src/core/ports/agents.ts'
import { Access } from '../../../../src/server/http/access.ts'
import { SocketInterface } from '../../../../src/server/socket/socket.ts'
import { remember } from '../../../support/server.ts'

const agentId = '6f0f7a2e-9c60-4f6a-9d3c-2f7f0f8f6a11'

it('subscribe: an agent that is deleted during the lookup is refused, because its subscription would never end', async () => {
  const events = new Events((error) => {
    throw error
  })
  const asked = Promise.withResolvers<void>()
  const answer = Promise.withResolvers<AgentRecord>()
  let isThere = true
  const get = async (): Promise<AgentRecord> => {
    if (!isThere) throw new EbbError('agent_not_found', 'There is no such agent.')
    asked.resolve()
    return await answer.promise
  }
  const subscriptions = new Subscriptions()
  const control = { agents: { get }, store: { messages: async () => [] }, events, subscriptions } as unknown as Control
  const http = createServer()
  const access = new Access({ host: '127.0.0.1', allowHosts: [], allowOrigins: [], token: undefined })
  const sockets = new SocketInterface(http, control, access)
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve))
  const client = remember(
    io(`http://127.0.0.1:${(http.address() as AddressInfo).port}`, { transports: ['websocket'], reconnection: false }),
  )
  try {
    await client.event('connected')
    client.socket.emit('subscribe', { agentId })
    await asked.promise
    isThere = false
    events.emit('deleted', { agentId, namespace: 'default' })
    answer.resolve({ agent: { id: agentId, namespace: 'default', session: { messageCount: 1 } } } as AgentRecord)
    expect(await client.event('error')).toMatchObject({ event: 'subscribe', agentId, message: 'There is no such agent.' })
    expect([subscriptions.names(undefined), client.of('subscribed')]).toEqual([[], []])
  } finally {
    client.socket.disconnect()
    await sockets.close()
  }
})
