import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { describe, expect, it } from 'vitest'
import { ebb, temporaryHome } from '../../support/home.ts'
import { leftInHome } from '../../support/ledger-file.ts'
import { needs } from '../../support/real.ts'
import { type Json, startServer, type TestServer } from '../../support/server.ts'
import { useServer } from '../../support/shared-server.ts'
import { survivors, waitUntil } from '../../support/world.ts'

/** Every agent has its own temp folder, which is removed with the agent, however the agent ends. */

/** A script that writes into its temp folder and prints its path. `last` lets it stay or end. */
const script = (last: string): readonly string[] => [
  'sh',
  '-c',
  `mkdir -p "$TMPDIR/a/b"; echo x >"$TMPDIR/a/b/c"; : >"$TMPDIR/a/b/$(printf 'na\\357ve')"; ln -s / "$TMPDIR/root"; chmod 000 "$TMPDIR/a"; echo "$TMPDIR"; ${last}`,
]
const stays = script('exec sleep 1000')
const placements = ['process', 'tmux'] as const

/** A server with its own system folder for temporary files. Everything in it at the end is a leftover. */
interface Scene {
  readonly server: TestServer
  readonly temp: string
}

async function serving(home = temporaryHome(), temp = temporaryHome()): Promise<Scene & AsyncDisposable> {
  const server = await startServer([], { home, env: { TMPDIR: temp } })
  return { server, temp, [Symbol.asyncDispose]: async () => await server.stop() }
}

/** Waits for the path of the temp folder that the agent prints. */
async function folderOf(server: TestServer, id: string): Promise<string> {
  const [first]: Json[] = await server.get(`/api/agents/${id}/messages?since=1&limit=1&wait=20000`)
  return first.content
}

/** Lists leftovers: the entries of the folder for temporary files, and everything that the home keeps for running agents. */
const leftOf = ({ server, temp }: Scene): readonly string[] => [...readdirSync(temp), ...leftInHome(server.home)]

/** Kills the server while its sentinel is stopped, so that the leftovers stay for another recovery. */
async function diesUnwatched({ home, ebb }: TestServer): Promise<void> {
  const sentinels = survivors(home).filter(({ argv }) => argv.startsWith('ebb-sentinel'))
  expect(sentinels).toHaveLength(1)
  for (const { pid } of sentinels) process.kill(pid, 'SIGSTOP')
  ebb.signal('SIGKILL')
  await ebb.ended
  for (const { pid } of sentinels) process.kill(pid, 'SIGKILL')
}

const ways: readonly (readonly [string, (server: TestServer, id: string) => Promise<unknown>])[] = [
  ['stop', (server, id) => server.post(`/api/agents/${id}/stop`)],
  ['force', (server, id) => server.post(`/api/agents/${id}/stop`, { force: true })],
  ['delete', (server, id) => server.call('DELETE', `/api/agents/${id}`)],
  ['reset', (server) => server.post('/api/test/reset-environment')],
  ['the end of its request', (server) => server.post('/api/requests/request-1/cleanup')],
]

describe.each(placements)('an agent in %s', (placement) => {
  needs(...(placement === 'tmux' ? (['tmux'] as const) : []))

  const temp = temporaryHome()
  const server = useServer([], { env: { TMPDIR: temp } })
  const scene = { server, temp }

  it.each(ways)('has a temp folder that is removed with it: %s', async (_way, end) => {
    const id = await server.command(stays, { placement, requestId: 'request-1' })
    const folder = await folderOf(server, id)
    expect(readdirSync(temp)).toEqual([folder.slice(temp.length + 1)])
    expect(readFileSync(join(folder, 'a/b/c'), 'utf8')).toBe('x\n')
    await end(server, id)
    expect(leftOf(scene)).toEqual([])
    expect(existsSync('/bin/sh')).toBe(true)
  })

  it('has a temp folder that is removed when the server exits', async () => {
    await using scene = await serving()
    await folderOf(scene.server, await scene.server.command(stays, { placement }))
    await scene.server.stop()
    expect(leftOf(scene)).toEqual([])
  })

  it('has a temp folder that is removed when it ends by itself, and the report names the folder', async () => {
    const id = await server.command(script('sleep 0.3'), { placement })
    const folder = await folderOf(server, id)
    expect(await server.get(`/api/agents/${id}/status?wait=20000`)).toMatchObject({ status: 'completed' })
    expect(leftOf(scene)).toEqual([])
    const resources: Json[] = await server.get(`/api/agents/${id}/resources`)
    expect(resources.find(({ kind }) => kind === 'temp-folder')).toMatchObject({
      name: folder,
      state: 'released',
      proof: { method: 'no such folder', strength: 'kernel' },
    })
  })

  it('has no temp folder when its configuration sets TMPDIR', async () => {
    const own = temporaryHome()
    const id = await server.launch({ type: 'command', prompt: '', placement, configuration: { command: stays, env: { TMPDIR: own } } })
    expect(await folderOf(server, id)).toBe(own)
    expect(readdirSync(temp)).toEqual([])
    await server.post(`/api/agents/${id}/stop`)
    expect(existsSync(join(own, 'a'))).toBe(true)
  })
})

/** A program named `claude` that leaves the same files as Claude Code, in a home of its own. */
function claude(more: Record<string, string> = {}): { readonly home: string; readonly env: Record<string, string> } {
  const [home, bin] = [temporaryHome(), temporaryHome()]
  for (const folder of ['shell-snapshots', 'sessions', 'projects']) mkdirSync(join(home, '.claude', folder), { recursive: true })
  writeFileSync(join(home, '.claude/shell-snapshots/snapshot-bash-1-theirs.sh'), 'export PATH=/usr/bin\n')
  const words = `cd "$HOME/.claude"; echo "export PATH=$PATH" >shell-snapshots/snapshot-bash-2-ours.sh
    same='"procStart":"1","pidDomain":"d"'; echo "{$same,\\"socket\\":\\"$TMPDIR/s\\"}" >sessions/$$.json; echo "{$same}" >sessions/$$.ab12.key
    echo "$PATH $TMPDIR" >projects/talk.jsonl; echo '{"type":"system","subtype":"init","session_id":"s","model":"m"}'; exec sleep 1000`
  writeFileSync(join(bin, 'claude'), `#!/bin/sh\n${words}\n`, { mode: 0o755 })
  return { home, env: { HOME: home, PATH: `${bin}:${process.env.PATH}`, ...more } }
}

describe.each(placements)('claude in %s, killed', (placement) => {
  needs(...(placement === 'tmux' ? (['tmux'] as const) : []))
  const temp = temporaryHome()
  const server = useServer([], { env: { TMPDIR: temp } })

  const killed = async (env: Record<string, string>): Promise<void> => {
    const id = await server.launch({ type: 'claude-code', prompt: 'hello', placement, configuration: { env } })
    await folderOf(server, id)
    expect(await server.post(`/api/agents/${id}/stop`, { force: true })).toMatchObject({ success: true })
  }

  it('leaves only its conversation in the configuration folder of its user', async () => {
    const { home, env } = claude()
    await killed(env)
    expect(readdirSync(join(home, '.claude'), { recursive: true }).sort()).toEqual([
      'projects',
      'projects/talk.jsonl',
      'sessions',
      'shell-snapshots',
      'shell-snapshots/snapshot-bash-1-theirs.sh',
    ])
    expect(readdirSync(temp)).toEqual([])
  })

  it('is identified by its PATH when its TMPDIR is that of its user', async () => {
    const { home, env } = claude({ TMPDIR: temporaryHome() })
    await killed(env)
    expect(readdirSync(join(home, '.claude/shell-snapshots'))).toEqual(['snapshot-bash-1-theirs.sh'])
  })
})

describe('the temp folder after SIGKILL of the server', () => {
  it('is removed by the sentinel', async () => {
    const scene = await serving()
    await folderOf(scene.server, await scene.server.command(stays))
    scene.server.ebb.signal('SIGKILL')
    await scene.server.ebb.ended
    await waitUntil(() => leftOf(scene), 20_000, 'the folder is gone')
  })

  it('is removed by `ebb recover`, even with another TMPDIR', async () => {
    const scene = await serving()
    const { server, temp } = scene
    await folderOf(server, await server.command(stays))
    await diesUnwatched(server)
    expect(readdirSync(temp)).toHaveLength(1)
    expect(await ebb(['recover'], { home: server.home, env: { TMPDIR: temporaryHome() } })).toMatchObject({ code: 0 })
    expect(leftOf(scene)).toEqual([])
  })

  it('is found by the reaper when the database is lost too', async () => {
    const scene = await serving()
    const { server, temp } = scene
    await folderOf(server, await server.command(stays))
    await diesUnwatched(server)
    for (const suffix of ['', '-wal', '-shm']) rmSync(join(server.home, `ebb.db${suffix}`), { force: true })
    const reap = () => ebb(['reap', '--reaper-minimum-age', '0ms', '--json'], { home: server.home })
    await reap()
    expect(readdirSync(temp)).toHaveLength(1)
    expect(JSON.parse((await reap()).stdout.toString('utf8')).released).toContainEqual(expect.objectContaining({ kind: 'temp-folder' }))
    await reap()
    expect(leftOf(scene)).toEqual([])
  })

  describe('agent in tmux', () => {
    needs('tmux')

    it('stays with the agent, and the next server takes over both', async () => {
      const home = temporaryHome()
      const first = await serving(home)
      const id = await first.server.command(stays, { placement: 'tmux' })
      const folder = await folderOf(first.server, id)
      first.server.ebb.signal('SIGKILL')
      await first.server.ebb.ended
      await using second = await serving(home)
      expect(await second.server.get(`/api/agents/${id}/status`)).toMatchObject({ status: 'running' })
      expect(readFileSync(join(folder, 'a/b/c'), 'utf8')).toBe('x\n')
      expect(await second.server.post(`/api/agents/${id}/stop`)).toMatchObject({ success: true })
      expect([...readdirSync(first.temp), ...leftOf(second)]).toEqual([])
    })

    it('is removed by the next server when the agent has ended meanwhile', async () => {
      const home = temporaryHome()
      const scene = await serving(home)
      const gate = join(temporaryHome(), 'gate')
      const id = await scene.server.command(script(`while ! [ -e ${gate} ]; do sleep 0.05; done`), { placement: 'tmux' })
      await folderOf(scene.server, id)
      scene.server.ebb.signal('SIGKILL')
      await scene.server.ebb.ended
      writeFileSync(gate, '')
      await using second = await serving(home)
      expect(await second.server.get(`/api/agents/${id}/status?wait=20000`)).toMatchObject({ status: 'completed' })
      expect([...readdirSync(scene.temp), ...leftOf(second)]).toEqual([])
    })
  })
})

describe('a launch', () => {
  it('that fails half-way removes its temp folder', async () => {
    await using scene = await serving()
    const { server, temp } = scene
    // The log of the agent cannot be created.
    rmSync(join(server.home, 'logs'), { recursive: true })
    const failed = await server.call('POST', '/api/agents', { body: { type: 'command', prompt: '', configuration: { command: stays } } })
    expect(failed.status).toBe(500)
    mkdirSync(join(server.home, 'logs'), { mode: 0o700 })
    expect(readdirSync(temp)).toEqual([])
    expect(leftInHome(server.home)).toEqual([])
  })

  it('is refused before anything exists when the system has no folder for temporary files', async () => {
    await using scene = await serving(temporaryHome(), '/nonexistent/folder')
    const { server } = scene
    const body = { type: 'command', prompt: '', configuration: { command: stays } }
    expect(await server.call('POST', '/api/agents', { body })).toMatchObject({
      status: 400,
      body: { code: 'launch_refused', message: expect.stringContaining('set TMPDIR to an existing folder') },
    })
    expect(await server.get('/api/agents')).toEqual([])
    const own = { ...body, configuration: { ...body.configuration, env: { TMPDIR: temporaryHome() } } }
    await server.post(`/api/agents/${await server.launch(own)}/stop`)
    expect(leftInHome(server.home)).toEqual([])
  })
})

it('a locked database: the temp folder is removed all the same (G12)', async () => {
  await using scene = await serving()
  const { server, temp } = scene
  const id = await server.command(stays)
  await folderOf(server, id)
  const lock = new DatabaseSync(join(server.home, 'ebb.db'), { timeout: 5_000 })
  lock.exec('BEGIN IMMEDIATE')
  const stopped = server.post(`/api/agents/${id}/stop`, { force: true })
  await waitUntil(() => readdirSync(temp), 15_000, 'the folder is gone')
  lock.close()
  expect(await stopped).toMatchObject({ success: true })
})

describe('a file in a temp folder that cannot be removed', () => {
  needs('root')

  it('is reported until it is removed (G11)', async () => {
    await using scene = await serving()
    const { server, temp } = scene
    const id = await server.command(['sh', '-c', 'touch "$TMPDIR/file"; chattr +i "$TMPDIR/file"; echo "$TMPDIR"; exec sleep 1000'])
    const file = join(await folderOf(server, id), 'file')
    try {
      const stopped: Json = await server.post(`/api/agents/${id}/stop`, { force: true })
      expect(stopped.success).toBe(false)
      expect(stopped.errors.join()).toMatch(/file cannot be removed \(EPERM\); take its flags away/)
      expect((await server.get('/api/cleanup/status')).stuck.join()).toContain(file)
    } finally {
      // The immutable flag (chattr +i) is removed, because with it the test's own cleanup could not remove the file.
      execFileSync('chattr', ['-i', file])
    }
    expect(await server.post('/api/reaper/run')).toMatchObject({ released: [expect.objectContaining({ kind: 'temp-folder' })], left: [] })
    expect(readdirSync(temp)).toEqual([])
  })

  it('does not keep a reset from removing the other agents, and is the only error of its report', async () => {
    await using scene = await serving()
    const { server } = scene
    const ended = await Promise.all([1, 2, 3, 4].map(() => server.command(['echo', 'hi'])))
    for (const id of ended) await server.get(`/api/agents/${id}/status?wait=20000`)
    const stuck = await server.command(['sh', '-c', 'touch "$TMPDIR/imm"; chattr +i "$TMPDIR/imm"; echo "$TMPDIR"'])
    const file = join(await folderOf(server, stuck), 'imm')
    try {
      await server.command(['sleep', '1000'])
      const report: Json = await server.post('/api/test/reset-environment', { timeout: 500 })
      expect(report).toMatchObject({ success: false })
      expect(report.errors.join()).toMatch(/imm cannot be removed \(EPERM\)/)
      expect(report.errors.join()).not.toContain('database')
      expect(await server.get('/api/agents')).toMatchObject([{ id: stuck, status: 'stuck' }])
      expect(readdirSync(join(server.home, 'archive')).filter((id) => id !== stuck)).toEqual([])
    } finally {
      execFileSync('chattr', ['-i', file])
    }
    expect(await server.post('/api/test/reset-environment')).toMatchObject({ success: true, cleanedAgentsCount: 1, errors: [] })
  })
})
