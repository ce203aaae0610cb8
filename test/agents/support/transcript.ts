import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { expect } from 'vitest'
import { conversation, type Spoken } from '../../support/conversation.ts'
import type { TestServer } from '../../support/server.ts'
import { prompt } from './scene.ts'

/** Compares the archived log of an agent with the messages that the server made of it. */

/** Requires that every line became a message, once and in order, and that the provider parsed every line. */
export async function requireWholeTranscript(server: TestServer, id: string): Promise<readonly Spoken[]> {
  const messages = await conversation(server, id)
  expect(messages[0]).toMatchObject({ type: 'user', content: prompt })
  const lines = archived(server.home, id, 'stdout')
  const isError = ({ metadata }: Spoken): boolean => metadata?.stream === 'stderr'
  requireLines(
    lines,
    messages.slice(1).filter((message) => !isError(message)),
  )
  expect(messages.filter(isError).map(({ content }) => content)).toEqual(archived(server.home, id, 'stderr'))
  return messages
}

/** The first message of each line has the parsed line in `raw`, or the line itself as its content. */
export function requireLines(lines: readonly string[], messages: readonly Spoken[]): void {
  const heads = messages.filter((message) => message.raw !== undefined || lines.includes(message.content))
  expect(heads.length, 'one message or more for each line').toBe(lines.length)
  for (const [index, line] of lines.entries()) {
    const head = heads[index] as Spoken
    const parsed = parse(line)
    if (parsed === undefined) expect(head.content).toBe(line)
    else if (!isDeepStrictEqual(head.raw, parsed)) expect(head.raw).toEqual(parsed)
    // A provider turns a line that it does not know into a response with the line as its content.
    else expect(head.type === 'response' && head.content === line, `the provider does not understand ${line.slice(0, 400)}`).toBe(false)
  }
}

function archived(home: string, id: string, stream: string): readonly string[] {
  return archivedText(home, id, stream)
    .split('\n')
    .filter((line) => line !== '')
}

function archivedText(home: string, id: string, stream: string): string {
  return readFileSync(join(home, 'archive', id, `${stream}.log`), 'utf8')
}

/**
 * Compares the log at the server with the agent's output at its runner. They must be equal. After a lost connection, the log has at least
 * what had arrived before, and is a prefix of the output.
 */
export function requireAllOf(written: string, home: string, id: string, arrived = written): void {
  const here = archivedText(home, id, 'stdout')
  expect(here.slice(0, arrived.length), 'output at the runner').toBe(arrived)
  expect(written.slice(0, here.length), 'output at the runner').toBe(here)
}

/** The live log of the only agent of a home. Logs are numbered, and standard output has the first number. */
export function liveOutput(home: string): string {
  const folder = join(home, 'logs')
  const number = (name: string): number => Number(/\.(\d+)\.log$/.exec(name)?.[1] ?? Number.POSITIVE_INFINITY)
  const [first] = readdirSync(folder).toSorted((a, b) => number(a) - number(b))
  if (first === undefined) throw new Error(`There is no live log in ${folder}.`)
  return join(folder, first)
}

function parse(line: string): object | undefined {
  try {
    const value: unknown = JSON.parse(line)
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : undefined
  } catch {
    return undefined
  }
}
