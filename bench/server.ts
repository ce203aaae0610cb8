import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { io, type Socket } from 'socket.io-client'
import type { Agent } from '../src/core/model/agent.ts'
import type { Message } from '../src/core/model/message.ts'
import type { Report } from '../src/core/model/report.ts'

/** A real server in a separate process, used through its API. */
export interface BenchServer {
  readonly url: string
  readonly pid: number
  readonly home: string
  launch(argv: readonly string[], prompt?: string): Promise<string>
  get<T>(path: string): Promise<T>
  text(path: string): Promise<string>
  post<T>(path: string, body?: unknown): Promise<T>
  remove(agentId: string): Promise<void>
  /** Settles when the agent has at least `count` messages. */
  hasMessages(agentId: string, count: number): Promise<void>
  follow(agentId: string, since: number, onMessage: (message: Message) => void): Promise<Socket>
}

export async function withServer<T>(
  work: (server: BenchServer) => Promise<T>,
  prepare: (home: string) => Promise<void> = async () => {},
): Promise<T> {
  const home = mkdtempSync(join(tmpdir(), 'ebb-bench-'))
  await prepare(home)
  const program = join(import.meta.dirname, '..', 'bin', 'ebb')
  const child = spawn(program, ['serve', '--port', '0', '--json', '--test-endpoints', '--log-level', 'error'], {
    env: { ...process.env, EBB_HOME: home },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()))
  const line = await new Promise<string>((resolve, reject) => {
    createInterface(child.stdout)
      .once('line', resolve)
      .once('close', () => reject(new Error('The server exited before it printed its address.')))
  })
  const { url } = JSON.parse(line) as { url: string }
  const sockets: Socket[] = []
  try {
    return await work(clientOf(url, child.pid ?? 0, home, sockets))
  } finally {
    for (const socket of sockets) socket.disconnect()
    child.kill('SIGTERM')
    await ended
    rmSync(home, { recursive: true, force: true })
  }
}

function clientOf(url: string, pid: number, home: string, sockets: Socket[]): BenchServer {
  const call = async (method: string, path: string, body?: unknown): Promise<Response> => {
    const json = body === undefined ? {} : { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }
    const response = await fetch(url + path, { method, ...json })
    if (!response.ok) throw new Error(`${method} ${path} was answered with ${response.status}: ${await response.text()}`)
    return response
  }
  const get = async <T>(path: string): Promise<T> => (await (await call('GET', path)).json()) as T
  return {
    url,
    pid,
    home,
    get,
    text: async (path) => await (await call('GET', path)).text(),
    post: async <T>(path: string, body?: unknown) => (await (await call('POST', path, body)).json()) as T,
    launch: async (argv, prompt = '') => {
      const answer = await call('POST', '/api/agents', { type: 'command', prompt, configuration: { command: argv } })
      return ((await answer.json()) as { id: string }).id
    },
    remove: async (agentId) => void (await call('DELETE', `/api/agents/${agentId}`)),
    hasMessages: async (agentId, count) => {
      for (;;) {
        const { session } = await get<Agent>(`/api/agents/${agentId}`)
        if (session.messageCount >= count) return
        await get(`/api/agents/${agentId}/messages?since=${session.messageCount}&limit=1&wait=30000`)
      }
    },
    follow: async (agentId, since, onMessage) => {
      const socket = io(url, { transports: ['websocket'], reconnection: false, forceNew: true })
      sockets.push(socket)
      socket.on('agent:message', ({ message }: { message: Message }) => onMessage(message))
      await new Promise<void>((resolve) => {
        socket.once('subscribed', () => resolve())
        socket.emit('subscribe', { agentId, since })
      })
      return socket
    },
  }
}

export async function reset(server: BenchServer): Promise<Report> {
  const report = await server.post<Report>('/api/test/reset-environment')
  if (!report.success) throw new Error(`A reset was not clean: ${report.errors.join('; ')}`)
  return report
}
