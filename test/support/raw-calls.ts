import { type IncomingHttpHeaders, request as open } from 'node:http'
import { connect } from 'node:net'
import { expect } from 'vitest'
import type { Json, TestServer } from './server.ts'
import { agentProcesses } from './shared-server.ts'

/** HTTP calls with exactly the headers and bytes that a test gives, and the state that a refused call must not change. */

export const unknown = '6f0f7a2e-9c60-4f6a-9d3c-2f7f0f8f6a11'
export const sleeper = { type: 'command', prompt: '', configuration: { command: ['sleep', '1000'] } }
export const json = { 'content-type': 'application/json' }

export interface Question {
  readonly method?: string
  readonly path?: string
  /** `host: undefined` sends no Host header. */
  readonly headers?: Readonly<Record<string, string | undefined>>
  readonly body?: string
  /** Sends only the head of the request. */
  readonly isUnfinished?: boolean
}

export interface Told {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly body: Json
}

/** Like fetch, but every header is free to choose. fetch does not set the headers that a browser sets for a page. */
export function ask(url: string, { method = 'GET', path = '/api/health', headers = {}, body, isUnfinished }: Question = {}): Promise<Told> {
  const { hostname, port, host } = new URL(url)
  const sent = Object.entries({ host, ...headers }).filter((entry): entry is [string, string] => entry[1] !== undefined)
  return new Promise((resolve, reject) => {
    const call = open(
      { host: hostname.replaceAll(/[[\]]/g, ''), port, method, path, headers: Object.fromEntries(sent), setHost: false, agent: false },
      (answer) => {
        const parts: Buffer[] = []
        answer.on('data', (part: Buffer) => parts.push(part))
        answer.on('error', reject)
        answer.on('end', () => {
          const text = Buffer.concat(parts).toString('utf8')
          call.destroy()
          resolve({ status: answer.statusCode ?? 0, headers: answer.headers, body: text.startsWith('{') ? JSON.parse(text) : text })
        })
      },
    )
    call.setTimeout(10_000, () => call.destroy(new Error(`${method} ${path} was not answered within 10 s.`)))
    call.on('error', reject)
    call.on('upgrade', (answer, socket) => {
      socket.destroy()
      resolve({ status: answer.statusCode ?? 0, headers: answer.headers, body: undefined })
    })
    if (isUnfinished) call.flushHeaders()
    else call.end(body)
  })
}

/** Sends the bytes as they are. Resolves with everything that arrives until the server closes the connection. */
export function say(url: string, text: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const parts: Buffer[] = []
    const socket = connect(Number(new URL(url).port), '127.0.0.1', () => socket.write(text))
    socket.setTimeout(10_000, () => socket.destroy(new Error('The server did not answer within 10 s.')))
    socket.on('data', (part) => parts.push(part))
    socket.on('error', reject)
    socket.on('close', () => resolve(Buffer.concat(parts).toString('utf8')))
  })
}

/** The state that a refused call must not change. */
export async function state(to: TestServer, headers: Record<string, string> = {}): Promise<Json> {
  const get = async (path: string): Promise<Json> => (await to.call('GET', path, { headers })).body
  return {
    agents: (await get('/api/agents')).map(({ id, status }: Json) => [id, status]),
    status: await get('/api/cleanup/status'),
    history: (await get('/api/cleanup/history')).map(({ id }: Json) => id),
    // Processes are compared by pid, because the name of a process changes at its exec.
    processes: agentProcesses(to.home).map((line) => line.split(' ', 1)[0]),
  }
}

export const nobody = { agents: [], status: { isClean: true, agentCount: 0, runningProcesses: 0, activeSubscriptions: 0 }, processes: [] }
export const refusal = (status: number, code: string): object => ({
  status,
  body: { statusCode: status, code, message: expect.stringMatching(/^[A-Z].*\.$/s) },
})
