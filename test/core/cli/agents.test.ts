import { execFileSync } from 'node:child_process'
import { rmdirSync, unlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { type Ended, ebb, startEbb, temporaryHome } from '../../support/home.ts'
import { type Json, startServer, type TestServer } from '../../support/server.ts'

/** Commands for agents, against a real server. */

let server: TestServer

beforeAll(async () => {
  server = await startServer()
})

afterEach(async () => {
  expect(await server.post('/api/test/reset-environment', { force: true })).toMatchObject({ success: true })
})

afterAll(async () => await server.stop())

const cli = (...words: readonly string[]): Promise<Ended> => ebb(words, { home: server.home })
const text = ({ stdout }: Ended): string => stdout.toString()
const json = (ended: Ended): Json => JSON.parse(text(ended))

/** An agent that has printed "ready" and waits. */
async function waiting(prompt = ''): Promise<string> {
  const id = await server.command(['sh', '-c', 'echo ready; exec sleep 1000'], { prompt })
  await server.get(`/api/agents/${id}/messages?since=1&wait=10000`)
  return id
}

async function ended(): Promise<string> {
  const id = await server.command(['true'])
  expect(await server.get(`/api/agents/${id}/status?wait=10000`)).toMatchObject({ status: 'completed' })
  return id
}

describe('ebb ps', () => {
  it('lists agents that have not ended, and with --all the others too', async () => {
    const [running, completed] = [await waiting('a prompt\nof two lines'), await ended()]
    const [some, all, raw, rawAll, elsewhere] = await Promise.all([
      cli('ps'),
      cli('ps', '--all'),
      cli('ps', '--json'),
      cli('ps', '--json', '--all'),
      cli('ps', '--namespace', 'another'),
    ])
    expect(text(some).split('\n')[0]).toMatch(/^ID +TYPE +PLACEMENT +STATUS +AGE +MESSAGES +PROMPT$/)
    expect(text(some)).toMatch(new RegExp(`^${running} +command +process +running +\\d+s +2 +a prompt of two lines$`, 'm'))
    expect(text(some)).not.toContain(completed.slice(0, 8))
    expect(text(all)).toContain(completed.slice(0, 8))
    expect(json(raw)).toEqual(await server.get('/api/agents/active'))
    expect(json(rawAll)).toEqual(await server.get('/api/agents'))
    expect(text(elsewhere)).toMatch(/^No agents are running/)
  })
})

describe('ebb show and ebb logs', () => {
  it('show one agent with its processes, and its conversation', async () => {
    const id = await waiting('hello')
    const [shown, raw, printed, lines] = await Promise.all([
      cli('show', id.slice(0, 8)),
      cli('show', '--json', id),
      cli('logs', id.slice(0, 13).toUpperCase()),
      cli('logs', '--json', id),
    ])
    expect(text(shown)).toMatch(new RegExp(`^Agent +${id}\n`))
    expect(text(shown)).toMatch(/^Process +\d+ sleep/m)
    expect(text(shown)).toMatch(/^Resource +process-tree .*: held$/m)
    expect(json(raw)).toMatchObject({ id, status: 'running', processes: [{ pid: expect.any(Number) }], resources: { length: 4 } })
    expect(text(printed)).toBe('> hello\nready\n')
    expect(
      text(lines)
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line)),
    ).toEqual(await server.get(`/api/agents/${id}/messages`))
  })

  it('with -f, logs continue until the agent ends', async () => {
    const stopped = await waiting()
    const deleted = await server.command(['sh', '-c', 'trap "echo bye; exit 0" TERM; echo ready; sleep 1000 & wait'])
    const logs = [stopped.slice(0, 8), deleted].map((id) => startEbb(['logs', '-f', id], { home: server.home }))
    await Promise.all(logs.map((run) => run.says('ready')))
    expect(await server.post(`/api/agents/${stopped}/stop`)).toMatchObject({ success: true })
    expect((await server.call('DELETE', `/api/agents/${deleted}`)).status).toBe(204)
    const [first, second] = await Promise.all(logs.map((run) => run.ended))
    expect(first).toMatchObject({ code: 0, stdout: Buffer.from('> \nready\n'), stderr: '' })
    expect(second).toMatchObject({ code: 0, stderr: `ebb: the agent ${deleted} was deleted meanwhile.\n` })
  })
})

describe('ebb stop and ebb rm', () => {
  it('end several agents at once; an unknown id does not stop the others', async () => {
    const [one, two, completed] = [await waiting(), await waiting(), await ended()]
    const stop = await cli('stop', one.slice(0, 8), '--json', two, 'ffffffff-nobody', completed)
    expect(stop).toMatchObject({ code: 1, stderr: expect.stringMatching(/^ebb: There is no agent "ffffffff-nobody"[^\n]*\n$/) })
    expect(json(stop)).toMatchObject([
      { agentId: one, report: { success: true, trigger: 'terminated' } },
      { agentId: two, report: { success: true } },
      { agentId: 'ffffffff-nobody', error: { code: 'agent_not_found' } },
      { agentId: completed, report: { trigger: 'completed' } },
    ])
    expect(await server.get(`/api/agents/${one}`)).toMatchObject({ status: 'terminated' })
    const rm = await cli('rm', one, two, one)
    expect([rm.code, text(rm), rm.stderr]).toEqual([0, `${one} deleted\n${two} deleted\n`, ''])
    expect((await server.get('/api/agents')).map(({ id }: Json) => id)).toEqual([completed])
    const again = await cli('rm', '--json', one, completed)
    expect(again).toMatchObject({ code: 1, stderr: expect.stringMatching(/^ebb: There is no agent/) })
    expect(json(again)).toMatchObject([
      { agentId: one, error: { code: 'agent_not_found' } },
      { agentId: completed, deleted: true },
    ])
  })

  it('stop of an agent that had failed does not report it as completed', async () => {
    const id = await server.command(['false'])
    expect(await server.get(`/api/agents/${id}/status?wait=10000`)).toMatchObject({ status: 'failed' })
    const stop = await cli('stop', id)
    expect([stop.code, text(stop)]).toEqual([0, `${id} had already ended\n`])
  })

  it('--force does not wait for an agent that ignores SIGTERM', async () => {
    const stubborn = await server.command(['sh', '-c', 'trap "" TERM; echo ready; while :; do sleep 1000; done'])
    await server.get(`/api/agents/${stubborn}/messages?since=1&wait=10000`)
    const stop = await cli('stop', '--grace', '10m', '--force', stubborn, '--json')
    expect(json(stop)).toMatchObject([{ report: { success: true, resources: expect.anything() } }])
    const steps = json(stop)[0].report.resources.flatMap((resource: Json) => resource.steps.map(({ step }: Json) => step))
    expect(steps).not.toContain('polite')
  })

  it('an ambiguous or too short prefix of an id is refused', async () => {
    const [short, ambiguous] = await Promise.all([cli('stop', (await ended()).slice(0, 3)), ambiguousStop()])
    expect(short).toMatchObject({ code: 2, stderr: expect.stringMatching(/too short for the ID of an agent; give at least 4 characters/) })
    expect(ambiguous).toMatchObject({ code: 1, stderr: expect.stringMatching(/"abcd" matches 2 agents, among them abcd0000/) })
  })

  it('resources that are not released are listed, with exit code 3 until they are', async () => {
    const id = await waiting()
    // Logs cannot be archived while a regular file is at the path of the archive folder.
    const archive = join(server.home, 'archive')
    rmdirSync(archive)
    writeFileSync(archive, '')
    const stop = await cli('stop', id, '--grace', '0s')
    expect(stop).toMatchObject({ code: 3, stderr: expect.stringMatching(/^ebb: not everything of .* could be released[\s\S]*\n {2}log /) })
    const status = await cli('status')
    expect(status).toMatchObject({ code: 3, stdout: expect.anything() })
    expect(text(status)).toMatch(/^(held back|stuck) +log /m)
    unlinkSync(archive)
    expect(await cli('rm', id, '--force')).toMatchObject({ code: 0 })
  })
})

/** Two ids with the same prefix need a fake server, because real ids are random. */
async function ambiguousStop(): Promise<Ended> {
  const two = ['abcd0000-0000-4000-8000-000000000000', 'abcd1111-0000-4000-8000-000000000000'].map((id) => ({ id }))
  return await withFake(
    () => [200, two],
    (url) => cli('stop', 'abcd', '--url', url),
  )
}

async function withFake<T>(
  answer: (path: string) => readonly [status: number, body: unknown],
  test: (url: string) => Promise<T>,
): Promise<T> {
  const fake = createServer((request, response) => {
    const path = request.url ?? ''
    const [status, body] = path === '/api/health' ? [200, { pid: 1 }] : answer(path)
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
  })
  await new Promise<void>((resolve) => fake.listen(0, '127.0.0.1', resolve))
  try {
    return await test(`http://127.0.0.1:${(fake.address() as AddressInfo).port}`)
  } finally {
    fake.closeAllConnections()
    fake.close()
  }
}

describe('ebb reset', () => {
  it('resets a namespace, or everything, and says so', async () => {
    await server.command(['sleep', '1000'], { namespace: 'one' })
    const kept = await server.command(['sleep', '1000'], { namespace: 'two' })
    const one = await cli('reset', '--namespace', 'one')
    expect([one.code, text(one)]).toEqual([0, expect.stringMatching(/^Reset in \d+ ms: 1 agent and 1 message deleted, proven gone\.\n$/)])
    expect((await server.get('/api/agents')).map(({ id }: Json) => id)).toEqual([kept])
    expect(json(await cli('reset', '--force', '--json'))).toMatchObject({ success: true, cleanedAgentsCount: 1 })
    expect(text(await cli('status'))).toBe('The system is clean.\n')
  })

  it('status: says whether agents run, or only records are left', async () => {
    const id = await server.command(['sh', '-c', 'echo up; exec sleep 1000'])
    await server.get(`/api/agents/${id}/messages?since=1&wait=15000`)
    const working = await cli('status')
    expect([working.code, text(working).split('\n', 2)]).toEqual([
      0,
      ['Agents are running; nothing is stuck.', expect.stringMatching(/^1 agent, \d messages?, 1 process, 0 subscriptions\.$/)],
    ])
    await server.post(`/api/agents/${id}/stop`)
    const after = await cli('status')
    expect([after.code, text(after)]).toEqual([
      0,
      expect.stringMatching(
        /^Nothing is running; only records of ended agents are left\.\n1 agent, \d messages?, 0 processes, 0 subscriptions\.\n$/,
      ),
    ])
  })

  it('on a server without test routes says how to start one with them', async () => {
    const home = temporaryHome()
    const plain = startEbb(['serve', '--port', '0'], { home })
    await plain.says('\n')
    expect(await ebb(['reset'], { home })).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/start it with: ebb serve --test-endpoints\n$/),
    })
    plain.signal('SIGTERM')
    await plain.ended
  })

  it('a reset or deletion that is not proven lists the reasons, with exit code 3', async () => {
    const left = { kind: 'process-tree', name: 'sh', outcome: 'stuck', steps: [], error: 'it does not die' }
    const report = { success: false, errors: ['agent x is on record'], resources: [left] }
    const id = '00000000-0000-4000-8000-000000000000'
    const answer = (path: string): readonly [number, unknown] =>
      path.startsWith('/api/test') ? [200, report] : [409, { statusCode: 409, code: 'not_released', message: 'No.', details: report }]
    const [reset, rm] = await withFake(answer, (url) => Promise.all([cli('reset', '--url', url), cli('rm', id, '--url', url)]))
    expect(reset).toMatchObject({ code: 3, stderr: 'ebb: not everything is proven gone after the reset:\n  agent x is on record\n' })
    expect(rm).toMatchObject({
      code: 3,
      stderr: expect.stringMatching(/could be released[^\n]*:\n {2}process-tree sh: it does not die\n$/),
    })
  })
})

describe('ebb status', () => {
  it('lists an archive that cannot be removed, although it has no ledger record', async () => {
    const id = await server.command(['echo', 'kept'])
    expect(await server.get(`/api/agents/${id}/status?wait=10000`)).toMatchObject({ status: 'completed' })
    const archive = join(server.home, 'archive', id)
    execFileSync('chattr', ['+i', archive])
    try {
      expect(await cli('rm', id)).toMatchObject({ code: 3 })
      for (const words of [[], ['--url', server.url]]) {
        const status = await cli('status', ...words)
        expect(status.code).toBe(3)
        expect(text(status)).toMatch(new RegExp(`^stuck +archive of agent ${id}`, 'm'))
      }
    } finally {
      execFileSync('chattr', ['-i', archive])
    }
    expect(await cli('rm', id)).toMatchObject({ code: 0 })
    expect(await cli('status')).toMatchObject({ code: 0 })
  })

  it('counts rows, processes and subscriptions of the server', async () => {
    const id = await waiting()
    const client = await server.socket()
    client.socket.emit('subscribe', { agentId: id })
    await client.event('subscribed')
    const [local, remote] = await Promise.all([
      cli('status', '--json'),
      ebb(['status', '--json', '--url', server.url], { home: temporaryHome() }),
    ])
    const expected = { isClean: false, agentCount: 1, messageCount: 2, runningProcesses: 1, activeSubscriptions: 1, stuck: [], leaks: [] }
    expect([local.code, json(local), remote.code, json(remote)]).toMatchObject([0, expected, 0, expected])
    client.socket.disconnect()
    expect(text(await cli('status'))).toMatch(
      /^Agents are running; nothing is stuck\.\n1 agent, 2 messages, 1 process, \d subscriptions?\.\n/,
    )
  })
})
