import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { waitUntil } from '../../support/world.ts'

/** A server with one agent, of which the test decides what is answered, and when; it says in time that it is there. */
export interface HeldServer extends AsyncDisposable {
  readonly url: string
  readonly id: string
  /** Settles when it is called so for the first time. */
  call(name: string): Promise<{ answer(status: number, body: unknown): void }>
  /** The agent says a piece of a text, which may go on. */
  say(content: string): void
  /** Settles when it was asked for news so many times more. */
  polls(count: number): Promise<void>
}

const id = '00000000-0000-4000-8000-000000000000'

export async function heldServer(): Promise<HeldServer> {
  const calls = new Map<string, PromiseWithResolvers<ServerResponse>>()
  const called = (name: string): PromiseWithResolvers<ServerResponse> => {
    const one = calls.get(name) ?? Promise.withResolvers<ServerResponse>()
    calls.set(name, one)
    return one
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
      const tell = (): unknown => response.end(JSON.stringify(messages.slice(since)))
      // As long as a server would wait for news.
      if (messages.length > since) tell()
      else setTimeout(tell, 250)
    } else if (request.method === 'GET') response.end(JSON.stringify(agent))
    else called(`${request.method} ${url.pathname}`).resolve(response)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    id,
    call: async (name) => {
      const response = await called(name).promise
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
