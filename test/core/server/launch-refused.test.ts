import { chmodSync, existsSync, mkdirSync, readdirSync, rmdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { temporaryHome } from '../../support/home.ts'
import { installationOf, leftInHome } from '../../support/ledger-file.ts'
import { type Json, startServer } from '../../support/server.ts'
import { agentProcesses, useServer } from '../../support/shared-server.ts'
import { cgroupsOf } from '../../support/world.ts'

const server = useServer()

/** Everything that a launch makes, observed without the server's own records. */
async function leftovers(): Promise<unknown> {
  const { home } = server
  return {
    agents: await server.get('/api/agents'),
    left: leftInHome(home),
    archives: readdirSync(join(home, 'archive')),
    processes: agentProcesses(home),
    cgroups: cgroupsOf(installationOf(home) ?? 'none').filter((path) => /[0-9a-f]{8}-[0-9a-f]{4}-4/.test(path)),
  }
}
const nothing = { agents: [], left: [], archives: [], processes: [], cgroups: [] }

async function refused(body: object): Promise<Json> {
  const client = await server.socket()
  const answer = await server.call('POST', '/api/agents', { body })
  expect(await leftovers()).toEqual(nothing)
  expect(client.of('agent:created')).toEqual([])
  client.socket.disconnect()
  return answer
}

describe('a launch that cannot start is refused and creates nothing:', () => {
  const command = (configuration: object): object => ({ type: 'command', prompt: '', requestId: 'never-born', configuration })

  it.each([
    ['a program that is not there', command({ command: ['no-such-program-anywhere'] })],
    ['a path that is not there', command({ command: ['/no/such/program'] })],
    ['a file that is not executable', command({ command: ['/etc/passwd'] })],
    ['a directory', command({ command: ['/etc'] })],
    ['a missing working directory', command({ command: ['true'], workingDirectory: '/no/such/folder' })],
    ['a working directory that is a file', command({ command: ['true'], workingDirectory: '/etc/passwd' })],
    ['a working directory with a name that is too long', command({ command: ['true'], workingDirectory: `/${'x'.repeat(300)}` })],
    ['a working directory that leads in a circle', command({ command: ['true'], workingDirectory: circle() })],
    ['no command', command({})],
    ['an empty program', command({ command: [''] })],
    ['a provider that is not installed', { type: 'claude-code', prompt: 'x', configuration: { env: { PATH: '/nowhere' } } }],
  ])('%s', async (_what, body) => {
    const { status, body: said } = await refused(body)
    expect({ status, code: said.code, statusCode: said.statusCode }).toEqual({ status: 400, code: 'launch_refused', statusCode: 400 })
    expect(said.message).toMatch(/\.$/)
    expect(await server.call('GET', '/api/requests/never-born')).toMatchObject({ status: 404, body: { code: 'request_not_found' } })
  })

  const wide = (bytes: number): string => 'é'.repeat(bytes / 2).padEnd(bytes - Math.floor(bytes / 2), 'x')
  const many = Array.from({ length: 1_000 }, (_, n) => `Bash(${n} ${'x'.repeat(200)})`)

  it.each([
    ['an argument that is too long', /argument .* 131072 bytes/, command({ command: ['echo', wide(131_072)] })],
    ['a variable that is too long with its name', /variable .* 131072 bytes/, command({ command: ['true'], env: { A: wide(131_070) } })],
    ['tools that are one argument', /argument .* bytes/, { type: 'claude-code', prompt: 'x', configuration: { allowedTools: many } }],
    ['arguments that are too long together', /together/, command({ command: ['true', ...Array(60).fill('x'.repeat(120_000))] })],
    [
      'variables that are too long together',
      /together/,
      command({ command: ['true'], env: Object.fromEntries(Array.from({ length: 30 }, (_, n) => [`a.${n}`, 'x'.repeat(120_000)])) }),
    ],
  ])('%s: exceeds a limit of execve(2)', async (_what, message, body) => {
    expect(await refused(body)).toMatchObject({ status: 400, body: { code: 'launch_refused', message: expect.stringMatching(message) } })
    expect(await server.call('GET', '/api/requests/never-born')).toMatchObject({ status: 404 })
  })

  it.each(['process', 'tmux'])('arguments and variables of exactly the allowed length are accepted, in %s', async (placement) => {
    const env = { A: wide(131_069) }
    const argv = ['sh', '-c', 'printf "%s%s" "$1" "$A" | wc -c', 'sh', wide(131_071)]
    const id = await server.launch({ type: 'command', prompt: '', placement, configuration: { command: argv, env } })
    expect(await server.get(`/api/agents/${id}/status?wait=15000`)).toMatchObject({ status: 'completed' })
    expect((await server.get(`/api/agents/${id}/messages`)).at(-1)).toMatchObject({ content: expect.stringContaining('262140') })
  })

  it('a relative working directory', async () => {
    const { status, body } = await refused(command({ command: ['true'], workingDirectory: 'tmp' }))
    expect({ status, body }).toMatchObject({ status: 400, body: { details: [{ path: 'configuration.workingDirectory' }] } })
  })

  it('no working directory, when that of the server is deleted', async () => {
    const cwd = temporaryHome()
    await using own = await startServer([], { cwd })
    rmdirSync(cwd)
    const answer = await own.call('POST', '/api/agents', { body: command({ command: ['true'] }) })
    expect(answer).toMatchObject({ status: 400, body: { code: 'launch_refused', message: expect.stringContaining('workingDirectory') } })
    const id = await own.command(['true'], { configuration: { command: ['true'], workingDirectory: '/' } })
    expect(await own.get(`/api/agents/${id}/status?wait=10000`)).toMatchObject({ status: 'completed' })
  })

  it('a NUL in an argument', async () => {
    const { status, body } = await refused(command({ command: ['echo', 'a\0b'] }))
    expect(status).toBe(400)
    expect(body.details).toMatchObject([{ path: 'configuration.command.1' }])
  })

  it('a provider that is not installed on the PATH of the server', async () => {
    const bin = temporaryHome()
    const paths = (process.env.PATH ?? '').split(':').filter((folder) => folder !== '')
    for (const name of ['sh', 'cat', 'mkfifo', 'node', 'env', 'dirname', 'readlink', 'uname', 'sed', 'mount', 'stat'])
      for (const folder of paths.toReversed()) link(join(folder, name), join(bin, name))
    await using own = await startServer([], { env: { PATH: bin } })
    const answer = await own.call('POST', '/api/agents', { body: { type: 'codex', prompt: 'x' } })
    expect(answer).toMatchObject({ status: 400, body: { code: 'launch_refused', message: expect.stringContaining('codex') } })
    const { providers } = await own.get('/api/providers')
    expect(providers.find((one: Json) => one.type === 'codex')).toMatchObject({ isAvailable: false })
    expect(providers.find((one: Json) => one.type === 'command')).toMatchObject({ isAvailable: true })
  })

  it('a script whose interpreter is missing', async () => {
    const folder = temporaryHome()
    mkdirSync(join(folder, 'bin'))
    const script = join(folder, 'bin', 'broken')
    writeFileSync(script, '#!/no/such/interpreter\n')
    chmodSync(script, 0o755)
    const answer = await server.call('POST', '/api/agents', { body: command({ command: [script] }) })
    // The kernel reports a missing interpreter only at execve(2). So either the launch fails, or the agent does.
    if (answer.status === 201)
      expect(await server.get(`/api/agents/${answer.body.id}/status?wait=15000`)).toMatchObject({ status: 'failed' })
    else expect(answer).toMatchObject({ status: 400, body: { code: 'launch_refused' } })
  })
})

it('POST /agents: a bad body is refused with the path of the problem', async () => {
  const ok = { type: 'command', prompt: '', configuration: { command: ['true'] } }
  const cases: readonly (readonly [string, unknown, string])[] = [
    ['no body at all', undefined, 'type'],
    ['null', null, 'type'],
    ['an array', [ok], ''],
    ['a text', 'launch!', ''],
    ['no prompt', { type: 'command' }, 'prompt'],
    ['a type that is a number', { ...ok, type: 7 }, 'type'],
    ['an unknown type', { ...ok, type: 'hal-9000' }, 'type'],
    ['an unknown placement', { ...ok, placement: 'moon' }, 'placement'],
    ['a prompt that is an object', { ...ok, prompt: {} }, 'prompt'],
    ['a namespace with a slash', { ...ok, namespace: '../x' }, 'namespace'],
    ['an empty namespace', { ...ok, namespace: '' }, 'namespace'],
    ['a request id with a newline', { ...ok, requestId: 'a\nb' }, 'requestId'],
    ['a task id of 101 characters', { ...ok, taskId: 'x'.repeat(101) }, 'taskId'],
    ['a parent that is no UUID', { ...ok, parentAgentId: '12' }, 'parentAgentId'],
    ['a command that is a text', { ...ok, configuration: { command: 'rm -rf /' } }, 'configuration.command'],
    ['an empty command', { ...ok, configuration: { command: [] } }, 'configuration.command'],
    [
      'a name of 101 characters',
      { ...ok, configuration: { command: ['true'], conversationName: 'x'.repeat(101) } },
      'configuration.conversationName',
    ],
    ['instructions of 100,001 characters', { ...ok, configuration: { instructions: 'x'.repeat(100_001) } }, 'configuration.instructions'],
    ['a negative timeout', { ...ok, configuration: { timeout: -1 } }, 'configuration.timeout'],
    ['a timeout of half a millisecond', { ...ok, configuration: { timeout: 0.5 } }, 'configuration.timeout'],
    ['a timeout beyond what timers take', { ...ok, configuration: { timeout: 2 ** 31 } }, 'configuration.timeout'],
    ['an idleTimeout that is a text', { ...ok, configuration: { idleTimeout: '5s' } }, 'configuration.idleTimeout'],
    ['a variable with = in its name', { ...ok, configuration: { env: { 'A=B': 'c' } } }, 'configuration.env.A=…'],
    ['a variable with a NUL', { ...ok, configuration: { env: { A: 'b\0' } } }, 'configuration.env.A'],
    ['a variable that is a number', { ...ok, configuration: { env: { A: 1 } } }, 'configuration.env.A'],
    ['limits below one', { ...ok, configuration: { limits: { pids: 0 } } }, 'configuration.limits.pids'],
    [
      'an MCP server without a command',
      { ...ok, configuration: { mcp: { servers: [{ name: 'a' }] } } },
      'configuration.mcp.servers.0.command',
    ],
    [
      'a schedule of an unknown type',
      { type: 'synthetic', prompt: '', configuration: { schedule: [{ delay: 0, type: 'party' }] } },
      'configuration.schedule.0.type',
    ],
    ['a prompt of 5 MB', { ...ok, prompt: 'x'.repeat(5_000_000) }, 'prompt'],
  ]
  const answers = await Promise.all(
    cases.map(async ([what, body, path]) => {
      const { status, body: said } = await server.call('POST', '/api/agents', { body })
      const named = said.details?.some((one: Json) => one.path === path) ? path : said.details
      return [what, status, said.code, named, said.message.length < 2_000]
    }),
  )
  expect(answers).toEqual(cases.map(([what, , path]) => [what, 400, 'invalid_request', path, true]))
  expect(await server.get('/api/agents')).toEqual([])
})

it('a launch is refused at the limit of running agents, and accepted after one has ended', async () => {
  await using own = await startServer(['--max-agents', '2'])
  const body = { type: 'command', prompt: '', configuration: { command: ['sleep', '1000'] } }
  const answers = await Promise.all(Array.from({ length: 30 }, () => own.call('POST', '/api/agents', { body })))
  expect(answers.filter(({ status }) => status === 201)).toHaveLength(2)
  expect(answers.filter(({ status }) => status === 429)).toHaveLength(28)
  expect(answers.find(({ status }) => status === 429)?.body).toMatchObject({ code: 'too_many_agents' })
  const id = answers.find(({ status }) => status === 201)?.body.id
  await own.post(`/api/agents/${id}/stop`)
  expect((await own.call('POST', '/api/agents', { body })).status).toBe(201)
})

it('a launch is refused when the disk of the home is nearly full', async () => {
  await using own = await startServer(['--min-free', '900t'])
  expect(await own.call('POST', '/api/agents', { body: { type: 'synthetic', prompt: '' } })).toMatchObject({
    status: 507,
    body: { code: 'disk_low' },
  })
  expect(await own.get('/api/agents')).toEqual([])
})

function circle(): string {
  const path = join(temporaryHome(), 'circle')
  symlinkSync(path, path)
  return path
}

function link(from: string, to: string): void {
  if (existsSync(from) && !existsSync(to)) symlinkSync(from, to)
}
