import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { waitUntil } from '../../support/world.ts'

/** A fake server with one agent. The test chooses when and how it answers; health checks are answered at once. */
export interface HeldServer extends AsyncDisposable {
  readonly url: string
  readonly id: string
  /** Resolves at the first call of this method and path. */
  call(name: string): Promise<{ answer(status: number, body: unknown): void }>
  /** Adds a piece of streamed text, which later pieces may continue. */
  say(content: string): void
  /** Resolves after `count` further requests for messages. */
  polls(count: number): Promise<void>
}

const id = '00000000-0000-4000-8000-000000000000'

export async function heldServer(): Promise<HeldServer> {
  const calls = new Map<string, PromiseWithResolvers<ServerResponse>>()
  const callOf = (name: string): PromiseWithResolvers<ServerResponse> => {
    const known = calls.get(name) ?? Promise.withResolvers<ServerResponse>()
    calls.set(name, known)
    return known
  }
  const messages: object[] = []
  let polled = 0
  const agent = { id, type: 'command', status: 'running', createdAt: new Date().toISOString(), session: { messageCount: 0, prompt: '' } }
  const server = createServer((request, response) => {
    const url = new URL(request.url ?? '', 'http://localhost')
    if (url.pathname === '/api/health') response.end('{"pid":1}')
    else if (url.pathname === `/api/agents/${id}/messages`) {
      polled += 1
      const since = Number(url.searchParams.get('since'))
      const answer = (): unknown => response.end(JSON.stringify(messages.slice(since)))
      // The answer is delayed, because a real server waits for new messages too.
      if (messages.length > since) answer()
      else setTimeout(answer, 250)
    } else if (request.method === 'GET') response.end(JSON.stringify(agent))
    else callOf(`${request.method} ${url.pathname}`).resolve(response)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    id,
    call: async (name) => {
      const response = await callOf(name).promise
      return { answer: (status, body) => void response.writeHead(status).end(JSON.stringify(body)) }
    },
    say: (content) => {
      const sequenceNumber = messages.length + 1
      messages.push({ id: String(sequenceNumber), sequenceNumber, type: 'assistant', content, metadata: { delta: true } })
    },
    polls: async (count) => {
      const from = polled
      await waitUntil(() => polled >= from + count, 15_000, `${count} more polls`)
    },
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
