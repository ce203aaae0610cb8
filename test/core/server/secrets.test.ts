import { chmodSync, existsSync, lstatSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { temporaryHome } from '../../support/home.ts'
import { installationOf } from '../../support/ledger-file.ts'
import { needs } from '../../support/real.ts'
import { type Json, startServer, type TestServer } from '../../support/server.ts'
import { processesOfHome, describe as shown, waitUntil } from '../../support/world.ts'

/** Secrets, named by the way in which they reach the server. Each value is unique, so that a search finds every copy of it. */
const secrets = {
  token: 'token-2kXvQ9dLw7',
  serverVariable: 'server-variable-Zp4TnB81',
  variable: 'variable-h7"Jq\\0sRm',
  unspeakableVariable: 'unspeakable-Wc5Yt3Ue',
  mcpVariable: 'mcp-variable-Gb6NfX2k',
  argument: 'argument-Dv8LzK4o',
  instructions: 'instructions-Ms1PaE9i',
} as const

type Secret = keyof typeof secrets

/** The secrets in the bytes, in any of the usual encodings. */
function found(where: string, bytes: Buffer | string, wanted = Object.keys(secrets) as Secret[]): readonly string[] {
  const text = Buffer.from(bytes).toString('latin1')
  return wanted.flatMap((name) => {
    const plain = Buffer.from(secrets[name])
    const ways = [secrets[name], JSON.stringify(secrets[name]).slice(1, -1), encodeURIComponent(secrets[name]), plain.toString('hex')]
    ways.push(plain.toString('base64').replace(/=+$/, ''), JSON.stringify(JSON.stringify(secrets[name])).slice(3, -3))
    return ways.some((way) => text.includes(way)) ? [`${name} in ${where}`] : []
  })
}

/** Returns undefined for a file that the server has removed meanwhile. */
function orGone<T>(read: () => T): T | undefined {
  try {
    return read()
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    return undefined
  }
}

function files(directory: string): readonly string[] {
  const entries = orGone(() => readdirSync(directory, { withFileTypes: true })) ?? []
  return entries.flatMap((entry) => {
    const file = join(directory, entry.name)
    return entry.isDirectory() ? [file, ...files(file)] : [file]
  })
}

/** The secrets in the files of the home. Only `server.json` may contain the token. */
function inFiles(home: string): readonly string[] {
  return files(home)
    .flatMap((file) => {
      const bytes = orGone(() => (lstatSync(file).isFile() ? readFileSync(file) : undefined))
      return bytes ? found(file.slice(home.length + 1), bytes) : []
    })
    .filter((finding) => finding !== 'token in server.json')
}

/** Files and folders that others than their owner may access. */
function openFiles(home: string): readonly string[] {
  return [home, ...files(home)].flatMap((file) => {
    const stat = lstatSync(file, { throwIfNoEntry: false })
    // The symlink to a temp folder has no mode of its own (symlink(7)); the folder around it counts.
    if (stat?.isSymbolicLink() && file.startsWith(`${home}/run/`) && file.endsWith('.temp')) return []
    const wanted = stat?.isDirectory() ? 0o700 : 0o600
    return !stat || (stat.mode & 0o777) === wanted ? [] : [`${(stat.mode & 0o777).toString(8)} ${file}`]
  })
}

/** Secrets on command lines and in environments. Only an agent's own process may have its arguments and instructions. */
function inProcesses({ home, ebb }: TestServer): readonly string[] {
  return processesOfHome(home, installationOf(home)).flatMap((one) => {
    const isAgent = `\0${one.environ}`.includes('\0EBB_SCOPE=')
    const hidden = (Object.keys(secrets) as Secret[]).filter((name) => !isAgent || (name !== 'argument' && name !== 'instructions'))
    const own = one.pid === ebb.pid || isAgent ? [] : found(`the environment of ${shown(one)}`, one.environ)
    return [...found(`the command line of ${shown(one)}`, one.argv, hidden), ...own]
  })
}

/** Secrets in the answers of every GET route, for every id that exists. */
async function inAnswers(server: TestServer, ids: readonly string[]): Promise<readonly string[]> {
  const get = async (path: string): Promise<Json> => (await server.call('GET', path, { headers: bearer })).body
  const { paths } = await get('/api/openapi.json')
  const history: Json[] = await get('/api/cleanup/history')
  const addresses = Object.entries<Json>(paths)
    .filter(([, methods]) => 'get' in methods)
    .flatMap(([path]) => {
      if (path.includes('/history/{id}')) return history.map(({ id }) => path.replace('{id}', id))
      if (path.includes('{id}')) return ids.map((id) => path.replace('{id}', id))
      return [path.replace('{requestId}', 'r')]
    })
  expect(addresses.length).toBeGreaterThan(30)
  const answers = await Promise.all(addresses.map(async (path) => found(path, JSON.stringify(await get(path)))))
  return answers.flat()
}

const bearer = { authorization: `Bearer ${secrets.token}` }

/** Programs with the names of the agent programs, which accept every argument, print one line, and sleep. */
function fakePrograms(): string {
  const folder = temporaryHome()
  for (const name of ['claude', 'codex', 'gemini', 'opencode']) {
    writeFileSync(join(folder, name), '#!/bin/sh\ncase "$*" in --version) echo 1.0; exit;; esac\ncat >/dev/null\necho up\nsleep 1000\n:\n')
    chmodSync(join(folder, name), 0o755)
  }
  return folder
}

/** A value that is not secret. The searches for secrets must find it, which shows that they work. */
const openly = 'openly-Rk3VwH5y'

const env = { API_KEY: secrets.variable, 'npm_config_//host/:_authToken': secrets.unspeakableVariable }
const mcp = { servers: [{ name: 'tools', command: 'true', args: ['x'], env: { TOOLS_KEY: secrets.mcpVariable } }] }
const more = { env, instructions: secrets.instructions, customArgs: [`--key=${secrets.argument}`] }

const launches: readonly object[] = [
  { type: 'command', prompt: openly, requestId: 'r', configuration: { ...more, command: ['sh', '-c', 'echo up; exec sleep 1000'] } },
  { type: 'command', prompt: openly, configuration: { ...more, command: ['sh', '-c', 'echo up; exit 3'] } },
  { type: 'claude-code', prompt: openly, taskId: 't', configuration: { ...more, mcp } },
  { type: 'codex', prompt: openly, configuration: { ...more, mcp } },
  { type: 'opencode', prompt: openly, configuration: { ...more, mcp } },
  { type: 'gemini-cli', prompt: openly, configuration: more },
]

/** Launches that are refused. The error names the problem without the secret. */
const refused: readonly object[] = [
  { type: 'gemini-cli', prompt: openly, configuration: { ...more, mcp } },
  { type: 'command', prompt: openly, configuration: { ...more, command: ['/no/such/program'] } },
  { type: 'command', prompt: openly, configuration: { ...more, command: ['true'], workingDirectory: '/no/such/folder' } },
  { type: 'command', prompt: openly, configuration: { command: ['true'], env: { A: `${secrets.variable}\0` } } },
  { type: 'command', prompt: openly, configuration: { command: ['true'], env: { [`API_KEY=${secrets.variable}`]: 'x' } } },
  { type: 'command', prompt: openly, configuration: { command: ['true'], env: [secrets.variable] } },
  { type: 'command', prompt: 7, configuration: more },
  {
    type: 'codex',
    prompt: openly,
    configuration: { mcp: { servers: [{ name: 'a', command: 'true', env: { 'A B': secrets.mcpVariable } }] } },
  },
]

async function lives(containment: string): Promise<void> {
  const words = ['--token', secrets.token, '--log-level', 'debug', '--containment', containment]
  const path = `${fakePrograms()}:${process.env.PATH ?? ''}`
  await using server = await startServer(words, {
    env: { PATH: path, SERVER_KEY: secrets.serverVariable },
    // The umask is 0, so files and folders are private only if the server sets their modes itself.
    through: ['sh', '-c', 'umask 0; exec "$0" "$@"'],
  })
  const { home } = server
  const client = await server.socket({ token: secrets.token })
  const post = (address: string, body: object = {}): Promise<Json> => server.call('POST', address, { body, headers: bearer })
  const seen: string[] = []
  for (const body of refused) {
    const answer = await post('/api/agents', body)
    expect(answer.status, JSON.stringify(answer.body)).toBe(400)
    seen.push(...found('a refusal', JSON.stringify(answer.body)))
  }
  const ids: string[] = []
  for (const body of launches) {
    const { status, body: said } = await post('/api/agents', body)
    expect(status, JSON.stringify(said)).toBe(201)
    ids.push(said.id)
    seen.push(...found('the answer to a launch', JSON.stringify(said)))
  }
  for (const id of ids) expect(await messages(server, id)).toHaveLength(1)
  const search = async (): Promise<readonly string[]> => [
    ...(await inAnswers(server, ids)),
    ...inFiles(home),
    ...inProcesses(server),
    ...found('the log', server.ebb.errorOutput()),
    ...found('standard output', server.ebb.output()),
    ...found('the events of a socket', JSON.stringify(client.events)),
  ]
  expect([...seen, ...(await search())]).toEqual([])
  expect(openFiles(home)).toEqual([])
  const text = [JSON.stringify(client.events), JSON.stringify((await server.call('GET', '/api/agents', { headers: bearer })).body)]
  for (const file of files(home).filter((one) => one.includes('ebb.db'))) text.push(readFileSync(file, 'latin1'))
  expect(text.map((one) => one.includes(openly))).toEqual(expect.arrayContaining([true, true, true]))

  // The agents are ended in every way that the server offers.
  const [one = '', two = '', three = '', four = ''] = ids
  const ends = [
    await post(`/api/agents/${two}/stop`),
    await post('/api/requests/r/cleanup'),
    await post('/api/cleanup', { scope: 'single', taskId: 't', force: true }),
    await server.call('DELETE', `/api/agents/${four}?force=true`, { headers: bearer }),
    await server.call('GET', '/api/reaper/run', { headers: { authorization: `Bearer ${secrets.variable.replaceAll('"', '')}` } }),
    await post('/api/reaper/run'),
  ]
  expect(ends.map(({ status }) => status)).toEqual([200, 200, 200, 204, 401, 200])
  await client.event('agent:deleted')
  for (const id of [one, two, three])
    expect((await server.call('GET', `/api/agents/${id}`, { headers: bearer })).body.status).not.toBe('running')
  expect([...found('a report', JSON.stringify(ends)), ...(await search())]).toEqual([])
  expect(openFiles(home)).toEqual([])
  expect(server.ebb.errorOutput()).toContain(`"scope":"${one}"`)

  // The sentinel and its recovery write logs of their own.
  client.socket.disconnect()
  server.ebb.signal('SIGKILL')
  await server.ebb.ended
  await waitUntil(() => processesOfHome(home, installationOf(home)).map(shown), 20_000, 'the recovery is over')
  expect(inFiles(home)).toEqual([])
  expect(openFiles(home)).toEqual([])
}

async function messages(server: TestServer, id: string): Promise<Json[]> {
  return (await server.call('GET', `/api/agents/${id}/messages?since=1&wait=15000`, { headers: bearer })).body
}

describe('secrets appear in no answer, log, report, file or command line', () => {
  it('with the strongest containment', async () => await lives('auto'))

  describe('without cgroups', () => {
    needs('subreaper')
    it('with a subreaper', async () => await lives('subreaper'))
  })
})

it('a token from the configuration file appears in no output, and `server.json` is removed with the server', async () => {
  const home = temporaryHome()
  mkdirSync(home, { recursive: true })
  writeFileSync(join(home, 'ebb.config.json'), JSON.stringify({ token: secrets.token, logLevel: 'debug' }), { mode: 0o600 })
  await using server = await startServer([], { home })
  expect((await server.call('GET', '/api/health')).status).toBe(401)
  expect(JSON.parse(readFileSync(join(home, 'server.json'), 'utf8'))).toMatchObject({ token: secrets.token, url: server.url })
  expect(inProcesses(server)).toEqual([])
  const output = [server.ebb.errorOutput(), server.ebb.output(), JSON.stringify((await server.call('GET', '/api/providers')).body)]
  expect(found('the output of the server', output.join('\n'))).toEqual([])
  await server.stop()
  // `server.json` goes with its server.
  expect(existsSync(join(home, 'server.json'))).toBe(false)
})
