import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { conversation, type Spoken } from '../support/conversation.ts'
import { fixture } from '../support/fixtures.ts'
import { startEbb, temporaryHome } from '../support/home.ts'
import { installationOf, leftInHome, openBooks } from '../support/ledger-file.ts'
import { needs } from '../support/real.ts'
import { type Client, type Json, startServer, type TestServer } from '../support/server.ts'
import { agentProcesses } from '../support/shared-server.ts'
import { processesOfHome, describe as show, waitUntil } from '../support/world.ts'

/**
 * G9 for streams: after SIGKILL of the server, the next server has every line that its agents wrote, once and in order. Each agent notes
 * the number of every line that it has written in a file that Ebb does not use.
 */

needs('gcc')

interface Talker {
  readonly id: string
  readonly notes: string
  /** The number of the last line; 0 for an agent that never ends by itself. */
  readonly last: number
}

const endless = 0
const lineNumber = ({ content }: Spoken): number => Number(/^line (\d+)$/.exec(content)?.[1])

async function talk(server: TestServer, notes: string, pauseUs: number, last: number): Promise<Talker> {
  const id = await server.command([fixture('counts-and-notes'), notes, String(pauseUs), String(last)])
  return { id, notes, last }
}

function noted({ notes }: Talker): number {
  return existsSync(notes) ? Number(readFileSync(notes, 'utf8')) : 0
}

async function kill(server: TestServer): Promise<void> {
  server.ebb.signal('SIGKILL')
  await server.ebb.ended
}

/** Kills a process that may have ended meanwhile. */
function killIfThere(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}

/**
 * Requires every line that the agent wrote, once, in the order of its stream. The messages may have one more line, which the agent had no
 * time to note.
 */
function requireAllLines(messages: readonly Spoken[], talker: Talker): void {
  const numbers = messages.slice(1).map(lineNumber)
  const count = numbers.length
  const missed = noted(talker)
  expect([missed, missed + 1], `${talker.id} noted ${missed} lines`).toContain(count)
  const upTo = Array.from({ length: count }, (_, index) => index + 1)
  expect(numbers.toSorted((a, b) => a - b)).toEqual(upTo)
  const isOnError = (number: number): boolean => number % 3 === 0
  expect(numbers.filter((number) => !isOnError(number))).toEqual(upTo.filter((number) => !isOnError(number)))
  expect(numbers.filter(isOnError)).toEqual(upTo.filter(isOnError))
  for (const message of messages.slice(1)) expect(message.type === 'error').toBe(isOnError(lineNumber(message)))
}

/** The archive equals the conversation. */
function requireArchive(home: string, id: string, messages: readonly Spoken[]): void {
  const archived = (stream: string): string => readFileSync(join(home, 'archive', id, `${stream}.log`), 'utf8')
  const expected = (isError: boolean): string =>
    messages
      .slice(1)
      .filter(({ type }) => (type === 'error') === isError)
      .map(({ content }) => `${content}\n`)
      .join('')
  expect(archived('stdout')).toBe(expected(false))
  expect(archived('stderr')).toBe(expected(true))
}

function requireEnd(agent: Json, { last }: Talker, count: number): void {
  const isWhole = last !== endless && count === last
  // The agent may have ended before the server saw its exit.
  if (isWhole && agent.status === 'completed') expect(agent).toMatchObject({ exitCode: 0 })
  else expect(agent).toMatchObject({ status: 'failed', error: { name: 'supervisor_lost', message: expect.stringMatching(/\.$/) } })
  expect(agent.completedAt).toEqual(expect.any(String))
}

/** Requires that all agents are over. Processes and files are checked first, then what the server reports. */
async function requireOver(server: TestServer, agents: number): Promise<void> {
  expect(agentProcesses(server.home)).toEqual([])
  expect(leftInHome(server.home)).toEqual([])
  // A recovery by the sentinel has an incarnation in the ledger until it exits.
  const isAlone = (): boolean => openBooks(server.home).filter((line) => line.startsWith('incarnation')).length === 1
  await waitUntil(isAlone, 15_000, 'no other recovery is running')
  expect(openBooks(server.home)).toEqual([expect.stringMatching(/^incarnation /)])
  const rows: Json[] = await server.get('/api/agents')
  expect(rows).toHaveLength(agents)
  const messages = rows.reduce((sum, { session }) => sum + session.messageCount, 0)
  expect(await server.get('/api/test/cleanup-status')).toEqual({
    isClean: agents === 0,
    agentCount: agents,
    messageCount: messages,
    runningProcesses: 0,
    activeSubscriptions: 0,
    resources: {},
    leaks: [],
    stuck: [],
    heldBack: [],
  })
}

async function requireConversations(server: TestServer, talkers: readonly Talker[]): Promise<void> {
  for (const talker of talkers) {
    const messages = await conversation(server, talker.id)
    requireAllLines(messages, talker)
    requireArchive(server.home, talker.id, messages)
    const agent = await server.get(`/api/agents/${talker.id}`)
    requireEnd(agent, talker, messages.length - 1)
    expect(agent.session.messageCount).toBe(messages.length)
  }
}

async function requireClean(server: TestServer): Promise<void> {
  expect(await server.post('/api/test/reset-environment')).toMatchObject({ success: true, errors: [] })
  expect(readdirSync(join(server.home, 'archive'))).toEqual([])
  await requireOver(server, 0)
}

/** Resolves when every agent has noted that many lines, or its last one. */
async function requireSpeech(talkers: readonly Talker[], lines: number): Promise<void> {
  await waitUntil(() => talkers.every((talker) => noted(talker) >= Math.min(lines, talker.last || lines)), 30_000, 'all agents write')
}

describe('server: SIGKILL', () => {
  it('loses and repeats no line of 30 streaming agents', async () => {
    const home = temporaryHome()
    const notes = temporaryHome()
    const first = await startServer([], { home })
    const schedule = Array.from({ length: 2_000 }, (_, index) => ({ delay: index * 8, type: 'message', data: { content: `say ${index}` } }))
    const [commands, scripted] = await Promise.all([
      Promise.all(
        Array.from({ length: 26 }, (_, index) =>
          talk(first, join(notes, String(index)), 2_000 + index * 200, index % 3 === 2 ? 20 + index * 8 : endless),
        ),
      ),
      Promise.all(
        Array.from({ length: 4 }, async () => (await first.post('/api/test/agents/synthetic', { prompt: '', schedule, process: true })).id),
      ),
    ])
    await requireSpeech(commands, 100)
    for (const id of scripted) await first.get(`/api/agents/${id}/messages?since=20&limit=1&wait=15000`)
    await kill(first)

    await using second = await startServer([], { home })
    await requireOver(second, 30)
    await requireConversations(second, commands)
    for (const id of scripted) {
      const messages = await conversation(second, id)
      expect(messages.length).toBeGreaterThan(20)
      expect(messages.slice(1).map(({ content }) => content)).toEqual(messages.slice(1).map((_, index) => `say ${index}`))
      const archive = readFileSync(join(home, 'archive', id, 'stdout.log'), 'utf8')
        .trimEnd()
        .split('\n')
      expect(archive.map((line) => JSON.parse(line).data.content)).toEqual(messages.slice(1).map(({ content }) => content))
      expect(await second.get(`/api/agents/${id}`)).toMatchObject({ status: 'failed', error: { name: 'supervisor_lost' } })
    }
    await requireClean(second)
  }, 180_000)

  it('with recoveries that are killed too leaves its agents to the next server', async () => {
    const home = temporaryHome()
    const notes = temporaryHome()
    const first = await startServer([], { home })
    const talkers = await Promise.all(Array.from({ length: 8 }, (_, index) => talk(first, join(notes, String(index)), 1_000, endless)))
    await requireSpeech(talkers, 500)
    await kill(first)
    const archived = (): number => (existsSync(join(home, 'archive')) ? readdirSync(join(home, 'archive')).length : 0)
    // The recovery processes that the sentinel starts. They are killed as soon as they have started.
    const recoveries = (): readonly number[] =>
      processesOfHome(home, installationOf(home))
        .filter(({ argv }) => argv.split('\0').includes('recover'))
        .map(({ pid }) => pid)
    await waitUntil(() => recoveries().length > 0 || archived() > 0, 30_000, 'the recovery begins')
    for (const pid of recoveries()) killIfThere(pid)
    // The next server is killed as soon as its recovery has archived a log, or the server answers.
    const between = startEbb(['serve', '--port', '0', '--json'], { home, deadlineMs: 60_000 })
    await Promise.race([waitUntil(() => archived() > 0, 30_000, 'the second recovery archives the first log'), between.says('\n')])
    between.signal('SIGKILL')
    await between.ended

    await using last = await startServer([], { home })
    await requireOver(last, 8)
    await requireConversations(last, talkers)
    await requireClean(last)
  }, 120_000)

  it('with a ledger outside its home is recovered by its sentinel there, within its limits', async () => {
    const home = temporaryHome()
    const notes = temporaryHome()
    const store = ['--store', `sqlite:${join(temporaryHome(), 'books.db')}`]
    const first = await startServer([...store, '--limit-messages', '1000'], { home })
    const lines = 15_000
    // A server stopped by SIGSTOP reads nothing of what the agents write.
    const speakers = await Promise.all([
      first.command(waitsFor(notes, 'a', lines)),
      first.launch(limited(waitsFor(notes, 'b', lines), 5_000)),
    ])
    const [chatty, verbose] = speakers as [string, string]
    first.ebb.signal('SIGSTOP')
    writeFileSync(join(notes, 'go'), '')
    const talkers = speakers.map((id, index) => ({ id, notes: join(notes, 'ab'[index] ?? ''), last: lines }))
    await requireSpeech(talkers, lines)
    await kill(first)
    await waitUntil(() => processesOfHome(home, installationOf(home)).map(show), 15_000, 'the sentinel has done its work')
    expect(leftInHome(home)).toEqual([])

    await using second = await startServer(store, { home })
    const many = await conversation(second, chatty)
    // Up to 4,000 lines are read and saved at once, on each of the two streams.
    expect(many.length).toBeGreaterThan(1_000)
    expect(many.length).toBeLessThan(1_000 + 2 * 4_000 + 4)
    expect(many.at(-1)).toMatchObject({ type: 'system', metadata: { truncated: true } })
    const much = await conversation(second, verbose)
    const kept = much.filter(({ type }) => type === 'response').map(({ content }) => content)
    const whole = readFileSync(join(home, 'archive', verbose, 'stdout.log'), 'utf8')
    expect(whole.length).toBeGreaterThan(100_000)
    expect(kept.join('\n')).toBe(whole.slice(0, 5_000))
    expect(much.filter(({ metadata }) => metadata?.truncated).map(({ metadata }) => metadata.stream)).toEqual(
      expect.arrayContaining(['stdout', 'stderr']),
    )
    expect(await second.post('/api/test/reset-environment')).toMatchObject({ success: true, cleanedAgentsCount: 2 })
    expect(await second.get('/api/test/verify-clean-state')).toMatchObject({ isClean: true, issues: [] })
  })

  it.each([11, 23, 37, 58, 94])(
    "at any moment of its agents' lives leaves a ledger that the next server can complete: seed %i",
    async (seed) => {
      const home = temporaryHome()
      const notes = temporaryHome()
      const random = randomNumbers(seed)
      const first = await startServer([], { home })
      const client = await first.socket()
      const lives = [endless, endless, ...Array.from({ length: 5 }, () => random(400) + 1)]
      const talkers = await Promise.all(lives.map((last, index) => talk(first, join(notes, String(index)), 200 + random(800), last)))
      for (const { id } of talkers) client.socket.emit('subscribe', { agentId: id, since: 0 })
      await events(client, random(900) + 1)
      const [stopped, deleted] = talkers as [Talker, Talker]
      const calls = Promise.allSettled([
        first.call('POST', `/api/agents/${stopped.id}/stop`),
        first.call('DELETE', `/api/agents/${deleted.id}`),
      ])
      await Promise.race([events(client, random(300)), calls])
      await kill(first)
      await calls

      await using second = await startServer([], { home })
      const isDeleted = (await second.call('GET', `/api/agents/${deleted.id}`)).status === 404
      await requireOver(second, talkers.length - (isDeleted ? 1 : 0))
      if (isDeleted) expect(existsSync(join(home, 'archive', deleted.id))).toBe(false)
      const { status } = await second.get(`/api/agents/${stopped.id}`)
      if (status === 'terminated') requireAllLines(await conversation(second, stopped.id), stopped)
      const others = talkers.filter((talker) => !(talker === deleted && isDeleted) && !(talker === stopped && status === 'terminated'))
      await requireConversations(second, others)
      await requireClean(second)
    },
  )
})

/** An agent that starts to write when the file `go` exists. */
function waitsFor(notes: string, name: string, lines: number): readonly string[] {
  const speak = `exec "$0" "${join(notes, name)}" 0 ${lines}`
  return ['sh', '-c', `until [ -e "${join(notes, 'go')}" ]; do sleep 0.01; done; ${speak}`, fixture('counts-and-notes')]
}

function limited(command: readonly string[], logBytes: number): object {
  return { type: 'command', prompt: '', configuration: { command, limits: { logBytes } } }
}

/** A linear congruential generator: the same numbers for the same seed, from 0 to below `most`. */
function randomNumbers(seed: number): (most: number) => number {
  let state = seed
  return (most) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * most)
  }
}

/** Resolves after this many further events of any name. */
async function events({ socket }: Client, count: number): Promise<void> {
  if (count === 0) return
  await new Promise<void>((resolve) => {
    let left = count
    const countDown = (): void => {
      left -= 1
      if (left > 0) return
      socket.offAny(countDown)
      resolve()
    }
    socket.onAny(countDown)
  })
}
