import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { describe, expect, it } from 'vitest'
import { conversation, statusAtEnd } from '../../support/conversation.ts'
import { fixture } from '../../support/fixtures.ts'
import { temporaryHome } from '../../support/home.ts'
import { leftInHome, openBooks } from '../../support/ledger-file.ts'
import { tmpfs } from '../../support/mounts.ts'
import { needs } from '../../support/real.ts'
import { type Json, startServer, type TestServer } from '../../support/server.ts'
import { agentProcesses } from '../../support/shared-server.ts'
import { describe as show, survivors, waitUntil } from '../../support/world.ts'

/** G12: another process holds the write lock of the database. No output of agents is lost, and agents are killed in time. */

needs('gcc')

/** Holds the write lock of the server's database from the test's process. */
class Lock implements Disposable {
  readonly #db: DatabaseSync

  constructor(home: string) {
    this.#db = new DatabaseSync(join(home, 'ebb.db'), { timeout: 5_000 })
    this.#db.exec('BEGIN IMMEDIATE')
  }

  [Symbol.dispose](): void {
    if (this.#db.isOpen) this.#db.close()
  }
}

/** How long the server waits for a lock of the database. A server that blocked during this wait would not answer for as long. */
const lockWaitMs = 5_000

/** Requests the health of the server again and again. The longest answer shows how long the server was blocked. */
class Pulse {
  longestMs = 0
  beats = 0
  readonly #stopped = new AbortController()
  readonly #beating: Promise<void>

  constructor(server: TestServer) {
    this.#beating = this.#beat(server)
  }

  async #beat(server: TestServer): Promise<void> {
    while (!this.#stopped.signal.aborted) {
      const startedMs = performance.now()
      expect(await server.get('/api/health')).toMatchObject({ status: 'ok', databaseStatus: 'connected' })
      this.longestMs = Math.max(this.longestMs, performance.now() - startedMs)
      this.beats += 1
    }
  }

  async stop(): Promise<void> {
    this.#stopped.abort()
    await this.#beating
  }
}

interface Talker {
  readonly id: string
  readonly notes: string
  readonly marker: string
}

async function talk(server: TestServer, folder: string, name: string, last: number, more: object = {}): Promise<Talker> {
  const notes = join(folder, name)
  const marker = `locked-${process.pid}-${performance.now()}-${name}`
  const command = [fixture('counts-and-notes'), notes, '1000', String(last)]
  const id = await server.launch({ type: 'command', prompt: '', configuration: { command, env: { MARKER: marker } }, ...more })
  return { id, notes, marker }
}

const noted = ({ notes }: Talker): number => (existsSync(notes) ? Number(readFileSync(notes, 'utf8')) : 0)
const wrote = (talker: Talker, lines: number): Promise<void> => waitUntil(() => noted(talker) >= lines, 30_000, 'the agent goes on writing')
const gone = ({ marker }: Talker): Promise<void> => waitUntil(() => survivors(marker).map(show), 30_000, 'its processes are gone')

/**
 * Requires that the messages contain every line that the agent wrote, once and in order. One line more than noted is allowed, because the
 * agent may die before it notes the line.
 */
async function requireAllLines(server: TestServer, talker: Talker): Promise<void> {
  const numbers = (await conversation(server, talker.id)).slice(1).map(({ content }) => Number(/^line (\d+)$/.exec(content)?.[1]))
  expect([noted(talker), noted(talker) + 1]).toContain(numbers.length)
  const upTo = Array.from({ length: numbers.length }, (_, index) => index + 1)
  for (const isOnError of [true, false])
    expect(numbers.filter((number) => (number % 3 === 0) === isOnError)).toEqual(upTo.filter((number) => (number % 3 === 0) === isOnError))
}

async function requireClean(server: TestServer): Promise<void> {
  expect(await server.post('/api/test/reset-environment')).toMatchObject({ success: true, errors: [] })
  expect(agentProcesses(server.home)).toEqual([])
  expect(leftInHome(server.home)).toEqual([])
  expect(readdirSync(join(server.home, 'archive'))).toEqual([])
  expect(openBooks(server.home)).toEqual([expect.stringMatching(/^incarnation /)])
  expect(await server.get('/api/test/verify-clean-state')).toMatchObject({ isClean: true, issues: [] })
}

it('a locked database: output is saved when the lock is released, and the server answers all the time', async () => {
  await using server = await startServer()
  const folder = temporaryHome()
  const staying = await Promise.all(['a', 'b', 'c'].map((name) => talk(server, folder, name, 0)))
  const leaving = await talk(server, folder, 'd', 200)
  for (const talker of staying) await wrote(talker, 50)
  const lock = new Lock(server.home)
  const pulse = new Pulse(server)
  const before = staying.map(noted)
  await gone(leaving)
  for (const [index, talker] of staying.entries()) await wrote(talker, (before[index] ?? 0) + 600)
  // The locked database can still be read.
  expect(await server.get('/api/agents')).toHaveLength(4)
  const stop = server.call('POST', `/api/agents/${staying[0]?.id}/stop`)
  await gone(staying[0] as Talker)
  expect(pulse.beats).toBeGreaterThan(10)
  lock[Symbol.dispose]()

  expect(await stop).toMatchObject({ status: 200, body: { success: true, errors: [] } })
  await pulse.stop()
  expect(pulse.longestMs).toBeLessThan(lockWaitMs)
  expect(await statusAtEnd(server, leaving.id)).toBe('completed')
  for (const { id } of staying.slice(1)) expect(await server.post(`/api/agents/${id}/stop`)).toMatchObject({ success: true })
  for (const talker of [...staying, leaving]) await requireAllLines(server, talker)
  expect((await server.get('/api/agents')).map(({ status }: Json) => status).toSorted()).toEqual([
    'completed',
    'terminated',
    'terminated',
    'terminated',
  ])
  await requireClean(server)
})

it('a locked database: agents that are stopped, deleted or reset die at once, and the ledger follows', async () => {
  await using server = await startServer()
  const folder = temporaryHome()
  const talkers = await Promise.all(['a', 'b', 'c', 'd'].map((name) => talk(server, folder, name, 0)))
  const [stopped, deleted, forced, reset] = talkers as [Talker, Talker, Talker, Talker]
  const spared = await talk(server, folder, 'e', 0, { namespace: 'other' })
  for (const talker of [...talkers, spared]) await wrote(talker, 50)
  const lock = new Lock(server.home)
  const pulse = new Pulse(server)
  const answers = Promise.all([
    server.call('POST', `/api/agents/${stopped.id}/stop`),
    server.call('DELETE', `/api/agents/${deleted.id}`),
    server.call('DELETE', `/api/agents/${forced.id}?force=true`),
  ])
  for (const talker of [stopped, deleted, forced]) await gone(talker)
  const startedMs = performance.now()
  const answer = server.call('POST', '/api/test/reset-environment', { body: { timeout: 300, namespace: 'default' } })
  await gone(reset)
  // The reset answers in time, without success, because the rows of the agents could not be deleted.
  expect(await answer).toMatchObject({ status: 200, body: { success: false } })
  expect((await answer).body.errors.join(' ')).toMatch(/database/)
  // A reset answers within five seconds after its timeout. A busy machine may need longer.
  expect(performance.now() - startedMs).toBeLessThan(15_000)
  expect(pulse.beats).toBeGreaterThan(10)
  // By now the first attempts to save the output of the spared agent have failed.
  lock[Symbol.dispose]()

  const [stop, ...deletions] = await answers
  expect([200, 503]).toContain(stop?.status)
  for (const { status, body } of deletions)
    if (status !== 204)
      expect({ status, body }).toMatchObject({ status: 503, body: { code: 'ledger_busy', message: expect.stringMatching(/\.$/) } })
  await pulse.stop()
  expect(pulse.longestMs).toBeLessThan(lockWaitMs)
  // New messages of the spared agent are saved while it runs.
  expect(await server.get(`/api/agents/${spared.id}/messages?since=${noted(spared)}&limit=1&wait=10000`)).toHaveLength(1)
  expect(await server.post(`/api/agents/${spared.id}/stop`)).toMatchObject({ success: true, errors: [] })
  await requireAllLines(server, spared)
  await requireClean(server)
})

it.each(['', '?force=true'])(
  'DELETE%s: a log stays until its deletion is recorded, so a SIGKILL before that loses nothing (G8, G9)',
  async (query) => {
    const home = temporaryHome()
    const first = await startServer([], { home })
    const talker = await talk(first, temporaryHome(), 'a', 0)
    await wrote(talker, 50)
    const resources: Json[] = await first.get(`/api/agents/${talker.id}/resources`)
    const logs = resources.filter(({ kind }) => kind === 'log').map(({ name }) => String(name))
    expect(logs).toHaveLength(2)
    const lock = new Lock(home)
    const deletion = first.call('DELETE', `/api/agents/${talker.id}${query}`).catch(() => undefined)
    await gone(talker)
    // A server that did not wait for the ledger record would delete the logs within milliseconds.
    await expect(waitUntil(() => logs.filter(existsSync), 1_000, 'the logs go')).rejects.toThrow('the logs go')
    first.ebb.signal('SIGKILL')
    await first.ebb.ended
    expect(await deletion).toBeUndefined()
    lock[Symbol.dispose]()

    await using second = await startServer([], { home })
    await requireAllLines(second, talker)
    expect(await second.get(`/api/agents/${talker.id}`)).toMatchObject({ status: 'failed', error: { name: 'supervisor_lost' } })
    const archived = ['stdout', 'stderr'].flatMap((stream) =>
      readFileSync(join(home, 'archive', talker.id, `${stream}.log`), 'utf8')
        .split('\n')
        .slice(0, -1),
    )
    const saved = (await conversation(second, talker.id)).slice(1).map(({ content }) => content)
    expect(archived.toSorted()).toEqual(saved.toSorted())
    await requireClean(second)
  },
)

describe('a full disk', () => {
  needs('root')

  it('does not keep agents alive: they die at once, and the rest of the close follows when there is space again', async () => {
    using disk = tmpfs(temporaryHome(), '16m')
    const server = await startServer(['--min-free', '0'], { home: disk.point })
    try {
      const talkers = await Promise.all(['a', 'b'].map((name) => talk(server, temporaryHome(), name, 0)))
      const [stopped, deleted] = talkers as [Talker, Talker]
      for (const talker of talkers) await wrote(talker, 50)
      const filler = join(disk.point, 'filler')
      fill(filler)
      const answers = Promise.all([
        server.call('POST', `/api/agents/${stopped.id}/stop`),
        server.call('DELETE', `/api/agents/${deleted.id}?force=true`),
      ])
      for (const talker of talkers) await gone(talker)
      expect((await server.call('GET', '/api/health')).status).toBeLessThan(504)
      rmSync(filler)
      for (const { status, body } of await answers)
        if (status >= 400) expect(body).toMatchObject({ code: expect.any(String), message: expect.stringMatching(/\.$/) })
      await server.post('/api/reaper/run')
      await requireClean(server)
    } finally {
      await server.stop()
    }
  })
})

function fill(file: string): void {
  for (let size = 65_536; size >= 1; size = Math.floor(size / 4)) {
    try {
      for (;;) writeFileSync(file, Buffer.alloc(size), { flag: 'a' })
    } catch {
      // The full disk has no room for a block of this size. A smaller block may still fit.
    }
  }
}
