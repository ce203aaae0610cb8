import { expect, it } from 'vitest'
import { type RequestLike, waitForAgentTerminalState } from '../../../src/testing/index.ts'
import { useServer } from '../../support/shared-server.ts'

const server = useServer()

it('waitForAgentTerminalState: one call waits for the end of the agent', async () => {
  const id = await server.command(['cat'], { configuration: { command: ['sh', '-c', 'echo ready; exec sleep 1000'] } })
  const calls: string[] = []
  const asked = Promise.withResolvers<void>()
  const request: RequestLike = {
    get: (url) => {
      calls.push(url)
      asked.resolve()
      return fetch(url)
    },
    post: (url) => fetch(url, { method: 'POST' }),
    delete: (url) => fetch(url, { method: 'DELETE' }),
  }
  const waiting = waitForAgentTerminalState({ request, url: server.url }, id)
  await asked.promise
  await server.post(`/api/agents/${id}/stop`)
  expect(await waiting).toBe('terminated')
  expect(calls).toEqual([`${server.url}/api/agents/${id}/status?wait=20000`])
})

it('waitForAgentTerminalState: resolves with completed, failed or deleted', async () => {
  expect(await waitForAgentTerminalState(server.url, await server.command(['true']))).toBe('completed')
  expect(await waitForAgentTerminalState(server.url, await server.command(['false']))).toBe('failed')
  expect(await waitForAgentTerminalState(server.url, '00000000-0000-4000-8000-000000000000')).toBe('deleted')
})

it('waitForAgentTerminalState: rejects at the timeout with the status of the agent', async () => {
  const id = await server.command(['sleep', '1000'])
  await expect(waitForAgentTerminalState(server.url, id, 100)).rejects.toThrow(`Agent ${id} is still running after 100 ms`)
})

it('waitForAgentTerminalState: rejects a malformed id at once', async () => {
  await expect(waitForAgentTerminalState(server.url, 'nonsense')).rejects.toThrow(/answered with 400: .*malformed/)
})

it('waitForAgentTerminalState: polls with pauses when the server answers before the end', async () => {
  let calls = 0
  const request: RequestLike = {
    get: async () => {
      calls += 1
      return new Response(JSON.stringify({ status: 'running' }))
    },
    post: async () => new Response(),
    delete: async () => new Response(),
  }
  await expect(waitForAgentTerminalState(request, 'x', 400)).rejects.toThrow('still running after 400 ms')
  expect(calls).toBeGreaterThan(2)
  expect(calls).toBeLessThan(12)
})
