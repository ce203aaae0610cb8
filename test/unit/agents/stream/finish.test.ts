import { appendFileSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { Stream } from '../../../../src/agents/stream/stream.ts'
import type { AgentStore, Progress } from '../../../../src/core/ports/agents.ts'
import { realClock } from '../../../../src/host/clock.ts'
import { temporaryHome } from '../../../support/home.ts'

const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }

it('stream: finish waits until the lines are saved, also when the writer was gone before the first read', async () => {
  const directory = temporaryHome()
  const path = join(directory, 'stdout.log')
  writeFileSync(path, 'one\ntwo\n')
  const order: string[] = []
  const asked = Promise.withResolvers<void>()
  const disk = Promise.withResolvers<void>()
  const save = async (progress: readonly Progress[]): Promise<readonly []> => {
    asked.resolve()
    await disk.promise
    order.push(`saved ${progress.flatMap(({ messages }) => messages.map(({ content }) => content)).join(', ')}`)
    return []
  }
  await using stream = new Stream({
    agents: { save } as unknown as AgentStore,
    clock: realClock,
    log: silent,
    onSaved: () => {},
    onTooMuch: () => {},
  })
  const parse = (line: string) => ({ messages: [{ type: 'response', content: line }] as const })
  const source = { agentId: 'a', stream: 'stdout', path, offset: 0, parse, limitBytes: 1_000, limitMessages: 1_000 }
  stream.follow(source)
  const finished = stream.finish(path, async () => source).then(() => order.push('finished'))
  await asked.promise
  disk.resolve()
  await finished
  expect(order).toEqual(['saved one, two', 'finished'])
})

it('stream: a new line is emitted by the inotify watch, without polling, in any folder', async () => {
  const folder = join(temporaryHome(), 'workspace', 'logs')
  mkdirSync(folder, { recursive: true })
  const path = join(folder, 'builder_stream.jsonl')
  writeFileSync(path, '')
  const emitted = Promise.withResolvers<unknown>()
  const save = async (progress: readonly Progress[]): Promise<readonly (readonly unknown[])[]> => progress.map(({ messages }) => messages)
  await using stream = new Stream({
    agents: { save } as unknown as AgentStore,
    clock: { ...realClock, every: () => {} },
    log: silent,
    onSaved: (_progress, messages) => emitted.resolve(messages.map(({ content }) => content)),
    onTooMuch: () => {},
  })
  const parse = (line: string) => ({ messages: [{ type: 'response', content: line }] as const })
  stream.follow({ agentId: 'a', stream: 'stdout', path, offset: 0, parse, limitBytes: 1_000, limitMessages: 1_000 })
  // The line is written only after the first read, which would find it without a watch.
  await stream.append({ agentId: 'a', messages: [] })
  appendFileSync(path, 'one\n')
  expect(await emitted.promise).toEqual(['one'])
})
