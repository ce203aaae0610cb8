import { expect } from 'vitest'
import { nodeProgram } from './home.ts'
import type { Json, TestServer } from './server.ts'

/** An agent's messages as a client reads them, and the checks that hold for every conversation. */

export interface Spoken {
  readonly id: string
  readonly sequenceNumber: number
  readonly type: string
  readonly content: string
  readonly raw?: Json
  readonly metadata?: Json
}

/** The command of an agent that runs a piece of JavaScript. */
export function script(code: string): readonly string[] {
  return [nodeProgram, '-e', code]
}

/** Longest wait in one call: less than the client's own timeout. */
const longestCallMs = 30_000

/** The agent's last status, or its status at the deadline. The wait ends with the agent. */
export async function statusAtEnd(server: TestServer, id: string, waitMs = 40_000): Promise<string> {
  const untilMs = performance.now() + waitMs
  for (;;) {
    const leftMs = Math.max(0, Math.round(untilMs - performance.now()))
    const { status } = await server.get(`/api/agents/${id}/status?wait=${Math.min(longestCallMs, leftMs)}`)
    if (leftMs === 0 || !['initializing', 'running', 'stopping'].includes(status)) return status
  }
}

/** The whole conversation. Fails when the sequence numbers have a gap or an id occurs twice. */
export async function conversation(server: TestServer, id: string): Promise<readonly Spoken[]> {
  const messages = await server.get<Spoken[]>(`/api/agents/${id}/messages`)
  requireWhole(messages)
  return messages
}

export function requireWhole(messages: readonly Spoken[], from = 1): void {
  const stray = messages.findIndex(({ sequenceNumber }, index) => sequenceNumber !== index + from)
  expect(stray, `message ${stray} is ${JSON.stringify(messages[stray])?.slice(0, 200)}`).toBe(-1)
  expect(new Set(messages.map(({ id }) => id)).size).toBe(messages.length)
}

/** The conversation without its first message, the prompt. */
export async function said(server: TestServer, id: string): Promise<readonly Spoken[]> {
  return (await conversation(server, id)).slice(1)
}

export async function rssBytes(server: TestServer): Promise<number> {
  return (await server.get('/api/health')).memoryUsage.rss
}
