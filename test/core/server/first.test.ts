import { expect, it } from 'vitest'
import { startServer } from '../../support/server.ts'

it('a server: an agent is launched, watched and reset', async () => {
  await using server = await startServer()
  const client = await server.socket()
  const id = await server.command(['sh', '-c', 'cat; exec sleep 1000'], { prompt: 'hello\n' })
  client.socket.emit('subscribe', { agentId: id, since: 0 })
  expect(await client.event('agent:message', ({ message }) => message.type === 'response')).toMatchObject({
    message: { content: 'hello', sequenceNumber: 2 },
  })
  expect(await server.post('/api/test/reset-environment')).toMatchObject({ success: true, cleanedAgentsCount: 1, cleanedMessagesCount: 2 })
  expect(await server.get('/api/test/verify-clean-state')).toMatchObject({ isClean: true, issues: [] })
  await client.event('agent:deleted')
})
