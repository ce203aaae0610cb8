import { type IncomingHttpHeaders, request as open } from 'node:http'
import { connect } from 'node:net'
import { expect } from 'vitest'
import type { Json, TestServer } from './server.ts'
import { agentProcesses } from './shared-server.ts'

/** Calls with every header and byte as the test says it, and what a call that is refused must not have changed. */

export const unknown = '6f0f7a2e-9c60-4f6a-9d3c-2f7f0f8f6a11'
export const sleeper = { type: 'command', prompt: '', configuration: { command: ['sleep', '1000'] } }
export const json = { 'content-type': 'application/json' }

export interface Question {
  readonly method?: string
  readonly path?: string
  /** `host: undefined` sends none. */
  readonly headers?: Readonly<Record<string, string | undefined>>
  readonly body?: string
  /** Nothing but the head is sent. */
  readonly isUnfinished?: boolean
}

export interface Told {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly body: Json
}

/** As fetch, but every header is ours to say; a browser would not let a page, and a page's browser is what is played here. */
export function ask(url: string, { method = 'GET', path = '/api/health', headers = {}, body, isUnfinished }: Question = {}): Promise<Told> {
  const { hostname, port, host } = new URL(url)
  const said = Object.entries({ host, ...headers }).filter((one): one is [string, string] => one[1] !== undefined)
  return new Promise((resolve, reject) => {
    const call = open(
      { host: hostname.replaceAll(/[[\]]/g, ''), port, method, path, headers: Object.fromEntries(said), setHost: false, agent: false },
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
    call.setTimeout(10_000, () => call.destroy(new Error(`${method} ${path} was not answered.`)))
    call.on('error', reject)
    call.on('upgrade', (answer, socket) => {
      socket.destroy()
      resolve({ status: answer.statusCode ?? 0, headers: answer.headers, body: undefined })
    })
    if (isUnfinished) call.flushHeaders()
    else call.end(body)
  })
}

/** The bytes as they are; resolves with everything that came until the other side closed. */
export function say(url: string, text: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const parts: Buffer[] = []
    const socket = connect(Number(new URL(url).port), '127.0.0.1', () => socket.write(text))
    socket.setTimeout(10_000, () => socket.destroy(new Error('It was not answered.')))
    socket.on('data', (part) => parts.push(part))
    socket.on('error', reject)
    socket.on('close', () => resolve(Buffer.concat(parts).toString('utf8')))
  })
}

/** What refused calls would have changed. */
export async function state(to: TestServer, headers: Record<string, string> = {}): Promise<Json> {
  const get = async (path: string): Promise<Json> => (await to.call('GET', path, { headers })).body
  return {
    agents: (await get('/api/agents')).map(({ id, status }: Json) => [id, status]),
    status: await get('/api/cleanup/status'),
    history: (await get('/api/cleanup/history')).map(({ id }: Json) => id),
    // By their ids: what one of them is called changes when it becomes its command.
    processes: agentProcesses(to.home).map((one) => one.split(' ', 1)[0]),
  }
}

export const nobody = { agents: [], status: { isClean: true, agentCount: 0, runningProcesses: 0, activeSubscriptions: 0 }, processes: [] }
export const refusal = (status: number, code: string): object => ({
  status,
  body: { statusCode: status, code, message: expect.stringMatching(/^[A-Z].*\.$/s) },
})
