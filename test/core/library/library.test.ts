import { spawn } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, readlinkSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { type Ebb, type EbbError, type Message, openEbb } from '../../../src/index.ts'
import { ebb as ebbCommand, nodeProgram, root, temporaryHome } from '../../support/home.ts'
import { installationOf } from '../../support/ledger-file.ts'
import { processesOfHome, describe as show, waitUntil } from '../../support/world.ts'

const command = (...argv: string[]) => ({ type: 'command', configuration: { command: argv } }) as const

function isAlive(pid: number | undefined): boolean {
  if (pid === undefined) throw new Error('The agent has no process.')
  try {
    return !/\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'))
  } catch {
    return false
  }
}

async function collect(messages: AsyncIterable<Message>): Promise<Message[]> {
  const all: Message[] = []
  for await (const message of messages) all.push(message)
  return all
}

test('messages: the prompt and every output line, numbered without gaps', async () => {
  await using ebb = await openEbb({ home: temporaryHome() })
  await using agent = await ebb.launch({ type: 'command', prompt: 'b\na\n', configuration: { command: ['sort'] } })
  const messages = await collect(agent.messages())
  expect(messages.map(({ sequenceNumber, type, content }) => [sequenceNumber, type, content])).toEqual([
    [1, 'user', 'b\na\n'],
    [2, 'response', 'a'],
    [3, 'response', 'b'],
  ])
  expect(agent.status).toBe('completed')
  expect(agent.exitCode).toBe(0)
})

test('messages: a program that opens /dev/stdout again truncates nothing', async () => {
  await using ebb = await openEbb({ home: temporaryHome() })
  await using agent = await ebb.launch(command('sh', '-c', 'seq 1 1000; echo x > /dev/stdout; echo err >&2'))
  const messages = await collect(agent.messages())
  const lines = messages.filter(({ type }) => type === 'response').map(({ content }) => content)
  expect(lines).toEqual([...Array.from({ length: 1_000 }, (_, index) => String(index + 1)), 'x'])
  expect(messages.filter(({ type }) => type === 'error')).toMatchObject([{ content: 'err', metadata: { stream: 'stderr' } }])
})

test('messages: a last line without newline is kept, and a too long line is cut and marked', async () => {
  await using ebb = await openEbb({ home: temporaryHome() })
  await using agent = await ebb.launch(command('sh', '-c', 'head -c 3000000 /dev/zero | tr "\\0" a; echo; printf end'))
  const messages = await collect(agent.messages())
  expect(messages.map(({ content, metadata }) => [content.length, metadata])).toEqual([
    [0, undefined],
    [1_048_576, { truncated: true, totalBytes: 3_000_000 }],
    [3, undefined],
  ])
})

test('agent end: a daemon that the agent started is ended, and the logs are archived', async () => {
  const home = temporaryHome()
  await using ebb = await openEbb({ home })
  const agent = await ebb.launch(command('sh', '-c', 'setsid sleep 1000 & echo $!'))
  const [, line] = await collect(agent.messages())
  const report = await agent.ended
  expect(report).toMatchObject({ success: true, trigger: 'completed', cleanedAgentsCount: 1 })
  expect(isAlive(Number(line?.content))).toBe(false)
  expect(readdirSync(join(home, 'logs'))).toEqual([])
  expect(readFileSync(join(home, 'archive', agent.id, 'stdout.log'), 'utf8')).toBe(`${line?.content}\n`)
})

test('stop: the agent is terminated whatever its exit code is, and a second stop returns the first report', async () => {
  await using ebb = await openEbb({ home: temporaryHome() })
  const agent = await ebb.launch(command('sh', '-c', 'trap "exit 0" TERM; echo ready; while :; do sleep 0.01; done'))
  for await (const message of agent.messages()) if (message.content === 'ready') break
  const report = await agent.stop()
  expect(report.success).toBe(true)
  expect(agent.status).toBe('terminated')
  expect(await agent.stop()).toBe(report)
})

test('timeout: the agent is ended and has the status failed', async () => {
  await using ebb = await openEbb({ home: temporaryHome() })
  const agent = await ebb.launch({ type: 'command', configuration: { command: ['sleep', '1000'], timeout: 50 } })
  expect((await agent.ended).success).toBe(true)
  expect(agent.status).toBe('failed')
  expect(isAlive(agent.pid)).toBe(false)
})

test('reset: the system is clean, and launches work again', async () => {
  const home = temporaryHome()
  await using ebb = await openEbb({ home })
  const agents = await Promise.all(Array.from({ length: 5 }, () => ebb.launch(command('sleep', '1000'))))
  expect((await ebb.status()).runningProcesses).toBe(5)
  const report = await ebb.reset()
  expect(report).toMatchObject({ success: true, trigger: 'test-reset', cleanedAgentsCount: 5 })
  expect(agents.some(({ pid }) => isAlive(pid))).toBe(false)
  expect(await ebb.status()).toMatchObject({ isClean: true, agentCount: 0, runningProcesses: 0, leaks: [], stuck: [] })
  expect(readdirSync(join(home, 'archive'))).toEqual([])
  await using again = await ebb.launch(command('true'))
  expect((await again.ended).success).toBe(true)
})

test('launch: one that cannot start is refused with launch_refused and leaves nothing', async () => {
  const home = temporaryHome()
  await using ebb = await openEbb({ home })
  await expect(ebb.launch(command('no-such-program'))).rejects.toMatchObject({ code: 'launch_refused' })
  await expect(
    ebb.launch({ type: 'command', configuration: { command: ['true'], workingDirectory: '/no/such/folder' } }),
  ).rejects.toMatchObject({
    code: 'launch_refused',
  })
  expect(readdirSync(join(home, 'logs'))).toEqual([])
  expect(await ebb.status()).toMatchObject({ isClean: true })
})

test('launch: options are validated as over HTTP, and a folder is relative to this process', async () => {
  await using ebb = await openEbb({ home: temporaryHome() })
  const request = ebb.request('r')
  const bad: readonly (readonly [object, string])[] = [
    [{ command: [] }, 'configuration.command'],
    [{ command: ['true'], timeout: '5s' }, 'configuration.timeout'],
    [{ command: ['true'], env: { A: 'b\0' } }, 'configuration.env.A'],
  ]
  for (const [configuration, path] of bad)
    for (const place of [ebb, request])
      await expect(place.launch({ type: 'command', configuration })).rejects.toMatchObject({ code: 'invalid_request', details: [{ path }] })
  await using agent = await ebb.launch({ type: 'command', configuration: { command: ['pwd'], workingDirectory: 'test' } })
  expect((await collect(agent.messages())).at(-1)?.content).toBe(join(process.cwd(), 'test'))
})

test('launch: one that fails half-way is rolled back with proof, and the error has the reason', async () => {
  const home = temporaryHome()
  await using ebb = await openEbb({ home })
  // The symlink to the temp folder is created in `run`, after the logs, so this launch fails half-way.
  rmSync(join(home, 'run'), { recursive: true })
  const error = await ebb.launch(command('true')).then(
    () => undefined,
    (reason: EbbError) => reason,
  )
  expect(error).toMatchObject({ code: 'launch_failed' })
  expect(error?.message).toMatch(/rolled back/)
  expect(readdirSync(join(home, 'logs'))).toEqual([])
  expect(await ebb.status()).toMatchObject({ isClean: true })
})

/** Starts another program that uses the library, so that its end can be observed from outside. */
async function guest(home: string, body: string): Promise<{ child: ReturnType<typeof spawn>; pid: number }> {
  const folder = join(home, 'guest')
  mkdirSync(folder, { recursive: true })
  const file = join(folder, 'guest.ts')
  writeFileSync(
    file,
    `import { openEbb } from ${JSON.stringify(join(root, 'src', 'index.ts'))}
     const ebb = await openEbb({ home: ${JSON.stringify(join(home, 'home'))} })
     const agent = await ebb.launch({ type: 'command', configuration: { command: ['sh', '-c', 'trap "" TERM; setsid sleep 1000 & wait'] } })
     console.log(agent.pid)
     ${body}`,
  )
  const child = spawn(nodeProgram, ['--disable-warning=ExperimentalWarning', file], { stdio: ['ignore', 'pipe', 'inherit'] })
  const pid = await new Promise<number>((resolve) => child.stdout?.once('data', (data: Buffer) => resolve(Number(data))))
  return { child, pid }
}

const exited = (child: ReturnType<typeof spawn>): Promise<NodeJS.Signals | number | null> =>
  new Promise((resolve) => void child.once('exit', (code, signal) => resolve(signal ?? code)))

for (const [how, body, end] of [
  ['a plain exit', 'process.exit(7)', 7],
  ['an uncaught error', 'throw new Error("uncaught")', 1],
  ['SIGTERM', 'process.kill(process.pid, "SIGTERM"); setInterval(() => {}, 1000)', 'SIGTERM'],
  ['SIGINT', 'process.kill(process.pid, "SIGINT"); setInterval(() => {}, 1000)', 'SIGINT'],
  ['SIGHUP', 'process.kill(process.pid, "SIGHUP"); setInterval(() => {}, 1000)', 'SIGHUP'],
  ['SIGKILL', 'process.kill(process.pid, "SIGKILL")', 'SIGKILL'],
] as const) {
  test(`host program: nothing outlives its end by ${how}`, async () => {
    const home = temporaryHome()
    const { child, pid } = await guest(home, body)
    const ended = exited(child)
    expect(await ended).toBe(end)
    await waitUntil(() => !isAlive(pid), 30_000, 'the agent of the ended program is gone')
    await waitUntil(() => openRows(join(home, 'home')) === 0, 30_000, 'the ledger of the ended program is finished')
  })
}

test('host program: with two Ebb instances it dies of its signal once both are closed, and nothing outlives it', async () => {
  const home = temporaryHome()
  const { child, pid } = await guest(
    home,
    `const other = await openEbb({ home: ${JSON.stringify(join(home, 'other'))} })
     await other.launch({ type: 'command', configuration: { command: ['sleep', '1000'] } })
     process.kill(process.pid, 'SIGINT')
     setInterval(() => {}, 1000)`,
  )
  expect(await exited(child)).toBe('SIGINT')
  expect(isAlive(pid)).toBe(false)
  for (const one of ['home', 'other']) expect(openRows(join(home, one))).toBe(0)
})

test('openEbb: a home can be open once in a process, and opened again after it was closed', async () => {
  const home = temporaryHome()
  const ebb = await openEbb({ home })
  const agent = await ebb.launch(command('sleep', '1000'))
  await expect(openEbb({ home })).rejects.toMatchObject({ code: 'bad_usage', message: expect.stringContaining(`open on the home ${home}`) })
  expect(isAlive(agent.pid)).toBe(true)
  expect(await agent.stop()).toMatchObject({ success: true })
  await ebb[Symbol.asyncDispose]()
  expect(openRows(home)).toBe(0)
  await using again = await openEbb({ home })
  expect(await again.status()).toMatchObject({ runningProcesses: 0, leaks: [], stuck: [] })
})

test('openEbb: a failure leaves no sentinel and no open database', async () => {
  const home = temporaryHome()
  await (await openEbb({ home }))[Symbol.asyncDispose]()
  const { DatabaseSync } = process.getBuiltinModule('node:sqlite')
  const lock = new DatabaseSync(join(home, 'ebb.db'))
  lock.exec('BEGIN IMMEDIATE')
  await expect(openEbb({ home })).rejects.toMatchObject({ code: 'ledger_busy' })
  lock.close()
  await waitUntil(() => sentinelsOf(home), 15_000, 'the sentinel has exited')
  expect(openFiles().filter((path) => path.startsWith(home))).toEqual([])
})

/** The pids of sentinels of a home, which is in their environment. */
function sentinelsOf(home: string): readonly string[] {
  return readdirSync('/proc').filter((pid) => {
    try {
      return /^\d+$/.test(pid) && Number(pid) !== process.pid && readFileSync(`/proc/${pid}/environ`, 'utf8').includes(home)
    } catch {
      return false
    }
  })
}

function openFiles(): readonly string[] {
  return readdirSync('/proc/self/fd').flatMap((descriptor) => {
    try {
      return [readlinkSync(`/proc/self/fd/${descriptor}`)]
    } catch {
      return []
    }
  })
}

/** Counts open records by reading the database file directly, without Ebb's ledger code. */
function openRows(home: string): number {
  const { DatabaseSync } = process.getBuiltinModule('node:sqlite')
  if (!existsSync(join(home, 'ebb.db'))) return -1
  const db = new DatabaseSync(join(home, 'ebb.db'), { readOnly: true })
  try {
    return Number(
      db.prepare("SELECT (SELECT count(*) FROM incarnation) + (SELECT count(*) FROM resource WHERE state != 'released') AS n").get()?.n,
    )
  } catch {
    return -1
  } finally {
    db.close()
  }
}

test('stop: held-back logs are in the report, and are archived once the cause is gone', async () => {
  const home = temporaryHome()
  const ebb: Ebb = await openEbb({ home, logLevel: 'silent' })
  const agent = await ebb.launch(command('sleep', '1000'))
  // A file is at the path of the archive, so the logs are held back.
  writeFileSync(join(home, 'archive', agent.id), '')
  const report = await agent.stop()
  expect(report.success).toBe(false)
  expect(report.resources.filter(({ outcome }) => outcome === 'held-back').map(({ kind }) => kind)).toEqual(['log', 'log'])
  expect(agent.status).toBe('stopping')
  expect(isAlive(agent.pid)).toBe(false)
  expect((await ebb.status()).heldBack).toHaveLength(2)
  rmSync(join(home, 'archive', agent.id))
  await ebb[Symbol.asyncDispose]()
  expect(existsSync(join(home, 'archive', agent.id, 'stdout.log'))).toBe(true)
})

test('held-back agents: force, a second close or the reaper releases them, and leaving no longer throws', async () => {
  const home = temporaryHome()
  const ebb = await openEbb({ home, logLevel: 'silent', ...{ reaperInterval: '250ms' } })
  const request = ebb.request('again')
  const [forced, reaped, inRequest] = await Promise.all([
    ebb.launch(command('sleep', '1000')),
    ebb.launch(command('sleep', '1000')),
    request.launch(command('sleep', '1000')),
  ])
  const isBlocked = [forced, reaped, inRequest].map(({ id }) => join(home, 'archive', id))
  for (const place of isBlocked) writeFileSync(place, '')
  let hasEnded = false
  const conversation = collect(reaped.messages()).then((messages) => {
    hasEnded = true
    return messages
  })

  const first = await Promise.all([forced.stop({ grace: 0 }), reaped.stop({ grace: 0 }), request.close()])
  expect(first.map(({ success }) => success)).toEqual([false, false, false])
  expect([forced.status, reaped.status, hasEnded]).toEqual(['stopping', 'stopping', false])

  expect(await forced.stop({ force: true })).toMatchObject({ success: true, gaveUp: [expect.any(String), expect.any(String)] })
  expect(forced.status).toBe('terminated')
  await forced[Symbol.asyncDispose]()
  for (const place of isBlocked) rmSync(place)
  expect(await conversation).toHaveLength(1)
  expect(reaped.status).toBe('terminated')
  await reaped[Symbol.asyncDispose]()
  expect(await request.close()).toMatchObject({ success: true })
  expect(inRequest.status).toBe('terminated')
  await ebb[Symbol.asyncDispose]()
})

test('messages: a reader of a held-back agent ends when Ebb is closed', async () => {
  const home = temporaryHome()
  const { child } = await guest(
    home,
    `const { writeFileSync } = process.getBuiltinModule('node:fs')
     writeFileSync(${JSON.stringify(join(home, 'home', 'archive'))} + '/' + agent.id, '')
     const reading = (async () => { for await (const _ of agent.messages()) {} })()
     const left = await ebb[Symbol.asyncDispose]().catch((error) => error.code)
     await reading
     process.exit(left === 'not_released' ? 9 : 1)`,
  )
  expect(await exited(child)).toBe(9)
  const place = join(home, 'home')
  for (const blocked of readdirSync(join(place, 'archive'))) rmSync(join(place, 'archive', blocked))
  // The sentinel's recovery may have run while the archive was still blocked; then the next recovery finishes.
  await waitUntil(() => processesOfHome(place, installationOf(place)).map(show), 30_000, 'the sentinel has exited')
  expect(await ebbCommand(['recover'], { home: place })).toMatchObject({ code: 0 })
  expect(openRows(place)).toBe(0)
})
