import { execFile } from 'node:child_process'
import { closeSync, constants, mkdirSync, openSync, rmSync, symlinkSync, writeFileSync, writeSync } from 'node:fs'
import { createServer, type Server } from 'node:net'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'
import type { Source } from '../../../../src/agents/stream/reader.ts'
import { Stream } from '../../../../src/agents/stream/stream.ts'
import { EbbError } from '../../../../src/core/model/errors.ts'
import type { Message } from '../../../../src/core/model/message.ts'
import type { AgentStore, Progress } from '../../../../src/core/ports/agents.ts'
import { realClock } from '../../../../src/host/clock.ts'
import { realEffects } from '../../../../src/host/effects.ts'
import { temporaryHome } from '../../../support/home.ts'

/** A log with a line that could not be read or saved must not count as finished: it would be archived, and the line lost (G8). */

const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }

/** A store that refuses every transaction that contains one given line. */
class PickyStore {
  readonly saved: string[] = []
  readonly #positions = new Map<string, number>()
  refused: string | undefined

  async save(progress: readonly Progress[]): Promise<readonly (readonly Message[])[]> {
    if (progress.some(({ messages }) => messages.some(({ content }) => content === this.refused)))
      throw new EbbError('internal', 'The database refused what was to be saved.')
    return progress.map((one) => this.#saveOne(one))
  }

  positionOf(agentId: string): number {
    return this.#positions.get(agentId) ?? 0
  }

  #saveOne({ agentId, messages, position }: Progress): readonly Message[] {
    if (position && position.from !== this.positionOf(agentId)) return []
    if (position) this.#positions.set(agentId, position.to)
    return messages.map((message) => {
      const sequenceNumber = this.saved.push(`${agentId} ${message.content}`) + 1
      return { ...message, agentId, sequenceNumber, createdAt: '2026-11-15T09:00:00.000Z' }
    })
  }
}

interface Scene {
  readonly store: PickyStore
  readonly stream: Stream
  log(agentId: string, text: string): Source
  finish(source: Source): Promise<void>
}

async function inScene(test: (scene: Scene) => Promise<void>): Promise<void> {
  const directory = temporaryHome()
  const store = new PickyStore()
  const agents = store as unknown as AgentStore
  await using stream = new Stream({ agents, clock: realClock, log: silent, onSaved: () => {}, onTooMuch: () => {} })
  const parse = (line: string) => ({ messages: [{ type: 'response', content: line }] as const })
  const log = (agentId: string, text: string): Source => {
    const path = join(directory, `${agentId}.log`)
    writeFileSync(path, text)
    return { agentId, stream: 'stdout', path, offset: 0, parse, limitBytes: 1_000_000, limitMessages: 1_000_000 }
  }
  const finish = (source: Source): Promise<void> =>
    stream.finish(source.path, async () => ({ ...source, offset: store.positionOf(source.agentId) }))
  await test({ store, stream, log, finish })
}

async function pipeWithWriter(path: string): Promise<Disposable> {
  await realEffects.makePipe(path)
  const fd = openSync(path, constants.O_RDWR | constants.O_NONBLOCK)
  writeSync(fd, 'one\n')
  return { [Symbol.dispose]: () => closeSync(fd) }
}

async function listening(path: string): Promise<Server> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(path, resolve))
  return server
}

it.each(['a folder', 'a link', 'a pipe', 'a socket'])(
  'stream: a log path taken by %s is refused, and the log is not finished',
  async (what) => {
    await inScene(async ({ store, stream, log, finish }) => {
      const source = log('a', 'precious\n')
      const path = `${source.path}.taken`
      if (what === 'a folder') mkdirSync(path)
      if (what === 'a link') symlinkSync(source.path, path)
      // The pipe has a writer, so that code that does not check for a pipe reads it instead of blocking for ever.
      using _ = what === 'a pipe' ? await pipeWithWriter(path) : undefined
      const server = what === 'a socket' ? await listening(path) : undefined
      stream.follow({ ...source, path })
      for (const _ of ['once', 'again']) await expect(finish({ ...source, path })).rejects.toMatchObject({ code: 'path_refused' })
      expect(store.saved).toEqual([])
      // When a regular file is at the path again, it is read.
      await server?.[Symbol.asyncDispose]()
      rmSync(path, { recursive: true, force: true })
      writeFileSync(path, 'one\n')
      await finish({ ...source, path })
      expect(store.saved).toEqual(['a one'])
    })
  },
)

it('reader: a pipe without writer is refused without blocking', async () => {
  const path = join(temporaryHome(), 'pipe')
  await realEffects.makePipe(path)
  // The reader runs in a child process, because a thread that blocks in open(2) can only be killed.
  const code = `import { LogReader } from ${JSON.stringify(new URL('../../../../src/agents/stream/reader.ts', import.meta.url).href)}
    try { new LogReader({ path: ${JSON.stringify(path)}, offset: 0, limitBytes: 1 }).read() } catch (error) { console.log(error.code) }`
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', code], {
    timeout: 20_000,
    killSignal: 'SIGKILL',
  })
  expect(stdout).toBe('path_refused\n')
})

it('stream: finish rejects when a line cannot be saved, and the next finish continues after the last save', async () => {
  await inScene(async ({ store, log, finish }) => {
    const source = log('a', 'one\ntwo\n')
    store.refused = 'two'
    await expect(finish(source)).rejects.toThrow('refused')
    expect(store.saved).toEqual([])
    store.refused = undefined
    await finish(source)
    expect(store.saved).toEqual(['a one', 'a two'])
  })
})

it('stream: a line that cannot be saved does not delay other agents', async () => {
  await inScene(async ({ store, stream, log, finish }) => {
    store.refused = 'poison'
    const [bad, good] = [log('bad', 'poison\n'), log('good', 'one\ntwo\n')]
    const refused = stream.append({ agentId: 'bad', messages: [{ id: 'x', type: 'response', content: 'poison' }] })
    await Promise.all([
      expect(refused).rejects.toThrow('refused'),
      expect(finish(bad)).rejects.toThrow('refused'),
      expect(finish(good)).resolves.toBeUndefined(),
    ])
    expect(store.saved).toEqual(['good one', 'good two'])
  })
})

it('stream: a line is kept unparsed when its provider throws', async () => {
  await inScene(async ({ store, log, finish }) => {
    const source = log('a', 'one\nbad\ntwo\n')
    const parse: Source['parse'] = (line) => {
      if (line === 'bad') throw new TypeError('line.of.what is undefined')
      return source.parse(line)
    }
    await finish({ ...source, parse })
    expect(store.saved).toEqual(['a one', 'a bad', 'a two'])
  })
})

it('stream: finish rejects when the stream is closed before the log was read', async () => {
  await inScene(async ({ stream, log, finish }) => {
    const source = log('a', 'one\n')
    stream.follow(source)
    const finished = finish(source)
    const closed = stream[Symbol.asyncDispose]()
    await expect(finished).rejects.toThrow('shutting down')
    await closed
  })
})
