import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { image } from '../../support/docker.ts'
import { containerOf, inDocker, shell, useDockerd } from '../../support/docker-agents.ts'
import { ebb, temporaryHome } from '../../support/home.ts'
import { missing, needs } from '../../support/real.ts'
import { ended, hasSaid, lines } from '../../support/said.ts'
import { type Json, startServer, type TestServer } from '../../support/server.ts'
import { waitUntil } from '../../support/world.ts'

needs('docker')
const daemon = useDockerd()

let server: TestServer
beforeAll(async () => {
  if (missing('docker') === undefined) server = await startServer(daemon().words, { env: { HOST_SECRET: 'of-the-host' } })
})
afterAll(async () => await server?.stop())

const launch = (configuration: object, placement = 'docker'): Promise<{ status: number; body: Json }> =>
  server.call<Json>('POST', '/api/agents', { body: { type: 'command', prompt: '', placement, configuration } })

describe('docker: an agent in a container', () => {
  it('has its messages, exit code and archive after its own end, and no container', async () => {
    const id = await inDocker(server, shell('echo one; echo two >&2; echo three; exit 3'))
    expect(await ended(server, id)).toMatchObject({ status: 'failed' })
    expect(await server.get(`/api/agents/${id}`)).toMatchObject({ placement: 'docker', exitCode: 3 })
    const messages: Json[] = await server.get(`/api/agents/${id}/messages`)
    const contents = (stream: string | undefined): string[] =>
      messages
        .slice(1)
        .filter(({ metadata }) => metadata?.stream === stream)
        .map(({ content }) => content)
    expect(contents(undefined)).toEqual(['one', 'three'])
    expect(contents('stderr')).toEqual(['two'])
    expect(readFileSync(join(server.home, 'archive', id, 'stdout.log'), 'utf8')).toBe('one\nthree\n')
    expect(daemon().containers()).toEqual([])
    const resources: Json[] = await server.get(`/api/agents/${id}/resources`)
    expect(resources.map(({ kind, state }) => `${kind} ${state}`)).toEqual([
      'log released',
      'log released',
      'container released',
      'container-run released',
    ])
    expect(resources.find(({ kind }) => kind === 'container').proof).toMatchObject({ method: 'no such container', strength: 'api' })
  })

  it('reads its whole prompt on standard input, whatever it contains', async () => {
    const prompt = `first line\n${'ä€'.repeat(50_000)}\nlast without newline`
    const id = await inDocker(server, shell('wc -c; echo done'), {}, { prompt })
    expect(await ended(server, id)).toMatchObject({ status: 'completed' })
    expect(await lines(server, id)).toEqual([String(Buffer.byteLength(prompt)), 'done'])
    const silent = await inDocker(server, shell('cat; echo end'))
    expect(await ended(server, silent)).toMatchObject({ status: 'completed' })
    expect(await lines(server, silent)).toEqual(['end'])
  })

  it('carries its labels before it runs, and a name derived from the intent', async () => {
    const id = await inDocker(server, shell('echo up; exec sleep 1000'))
    const container = containerOf(daemon(), id)
    const [seen] = JSON.parse(daemon().docker('inspect', container)) as Json[]
    const labels = seen.Config.Labels
    expect(labels['ebb.scope']).toBe(id)
    expect(seen.Name).toBe(`/ebb-${labels['ebb.resource']}`)
    expect(labels['ebb.installation']).toMatch(/^[0-9a-f]+$/)
    expect(seen.HostConfig).toMatchObject({ AutoRemove: false, RestartPolicy: { Name: 'no' }, LogConfig: { Type: 'json-file' } })
    expect(await server.call('DELETE', `/api/agents/${id}`)).toMatchObject({ status: 204 })
    expect(daemon().containers()).toEqual([])
  })

  it('gets only the environment of its launch and the environment tag, nothing from the host', async () => {
    const id = await inDocker(server, shell('env | sort | cut -d= -f1; echo "$MINE"'), { env: { MINE: 'yes' } })
    await ended(server, id)
    const printed = await lines(server, id)
    expect(printed.at(-1)).toBe('yes')
    const names = printed.slice(0, -1).filter((name) => !['HOME', 'HOSTNAME', 'PATH', 'PWD', 'SHLVL'].includes(name))
    expect(names).toEqual(['EBB_SCOPE', 'MINE'])
  })

  it('runs with its limits in its working directory', async () => {
    const script = 'pwd; cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max 2>/dev/null; echo up; exec sleep 1000'
    const id = await inDocker(server, shell(script), { workingDirectory: '/tmp', limits: { memoryBytes: 67_108_864, pids: 17 } })
    await hasSaid(server, id, 2)
    expect(await lines(server, id)).toContain('/tmp')
    const [seen] = JSON.parse(daemon().docker('inspect', containerOf(daemon(), id))) as Json[]
    expect(seen.HostConfig).toMatchObject({ Memory: 67_108_864, PidsLimit: 17 })
    expect(await server.post(`/api/agents/${id}/stop`, { force: true })).toMatchObject({ success: true })
  })

  it('shows its processes as processes of the host, each once', async () => {
    const id = await inDocker(server, shell('env -i sleep 1000 & echo up; wait'))
    await hasSaid(server, id, 1)
    const readProcesses = (): Promise<Json> => server.get(`/api/agents/${id}/process`)
    const sleeps = async (): Promise<boolean> => (await readProcesses()).processes.some(({ command }: Json) => command.startsWith('sleep'))
    // Before its exec, the child of the agent is a shell, and then `env`.
    await waitUntil(sleeps, 20_000, 'its child sleeps')
    const { process_alive, processes } = await readProcesses()
    expect(process_alive).toBe(true)
    expect(processes.map(({ command }: Json) => command).toSorted()).toEqual(['sh', 'sleep'].map((name) => expect.stringContaining(name)))
    expect(await server.get('/api/cleanup/status')).toMatchObject({ runningProcesses: 2, leaks: [] })
    expect(await server.post(`/api/agents/${id}/stop`)).toMatchObject({ success: true })
    expect(await server.get('/api/cleanup/status')).toMatchObject({ runningProcesses: 0, resources: {}, leaks: [] })
  })

  it('is refused without leftovers when its program is not in the image or its folder is not on the host', async () => {
    const program = await launch({ command: ['no-such-program'] })
    expect(program).toMatchObject({ status: 400, body: { code: 'launch_refused', message: expect.stringContaining('no-such-program') } })
    const folder = await launch({ command: ['true'], workingDirectory: 'relative' })
    expect(folder.status).toBe(400)
    expect(daemon().containers()).toEqual([])
    expect(await server.get('/api/cleanup/status')).toMatchObject({ resources: {}, leaks: [], stuck: [] })
  })

  it('has long lines, many lines and an unfinished last line in its log', async () => {
    const script = `head -c 100000 /dev/zero | tr '\\0' x; echo; seq 1 20000; printf 'no newline'`
    const id = await inDocker(server, shell(script))
    await ended(server, id)
    const log = readFileSync(join(server.home, 'archive', id, 'stdout.log'), 'utf8').split('\n')
    expect(log[0]).toBe('x'.repeat(100_000))
    expect(log.slice(1, -1)).toEqual(Array.from({ length: 20_000 }, (_, index) => String(index + 1)))
    expect(log.at(-1)).toBe('no newline')
  })

  it('is stopped by its timeout', async () => {
    const id = await inDocker(server, shell('trap "" TERM; while :; do sleep 0.1; done'), { timeout: 300 })
    expect(await ended(server, id)).toMatchObject({ status: 'failed' })
    expect(await server.get(`/api/agents/${id}`)).toMatchObject({ error: { name: 'timeout' } })
    expect(daemon().containers()).toEqual([])
  })
})

describe('docker settings', () => {
  it('mounts, variables, user and limits come from the configuration', async () => {
    const folder = temporaryHome()
    mkdirSync(join(folder, 'data'))
    writeFileSync(join(folder, 'data', 'file'), 'content')
    const words = [
      ...daemon().words,
      ...['--docker-mount', `${folder}/data:/in:ro`, '--docker-mount', `${folder}:/out`],
      ...['--docker-env', 'PLAIN=a=b', '--docker-env', 'OURS', '--docker-env', 'NOBODYS'],
      ...['--docker-user', '65534:65534', '--docker-memory', '64m', '--docker-pids', '33', '--docker-cpus', '0.5'],
    ]
    await using own = await startServer(words, { env: { OURS: 'from-here', NOBODYS: undefined } })
    const script =
      'cat /in/file; echo; touch /in/x 2>/dev/null || echo read-only; id -u; echo "$PLAIN $OURS $NOBODYS."; echo up; exec sleep 1000'
    const id = await inDocker(own, shell(script))
    await hasSaid(own, id, 5)
    expect(await lines(own, id)).toEqual(['content', 'read-only', '65534', 'a=b from-here .', 'up'])
    const [seen] = JSON.parse(daemon().docker('inspect', containerOf(daemon(), id))) as Json[]
    expect(seen.HostConfig).toMatchObject({ Memory: 67_108_864, PidsLimit: 33, NanoCpus: 500_000_000, NetworkMode: 'none' })
    expect(await own.call('DELETE', `/api/agents/${id}`)).toMatchObject({ status: 204 })
  })

  it('"ebb doctor" checks them without changing anything', async () => {
    const good = await ebb(['doctor', '--json', ...daemon().words], { home: temporaryHome() })
    expect(JSON.parse(good.stdout.toString()).settings).toMatchObject([
      { setting: 'docker.host', isGood: true },
      { setting: 'docker.image', isGood: true, says: `${image} is there` },
      { setting: 'docker.network', isGood: true },
    ])
    const words = ['--docker-image', 'nobody/has:this', '--docker-host', daemon().host]
    const bad = await ebb(['doctor', '--json', ...words], { home: temporaryHome() })
    expect(JSON.parse(bad.stdout.toString()).settings).toContainEqual({
      setting: 'docker.image',
      isGood: false,
      says: expect.stringContaining('docker pull nobody/has:this'),
    })
  })

  it('a mount of a missing path is reported by the doctor, and by the server at its start', async () => {
    const folder = temporaryHome()
    const mounts = ['--docker-mount', `${folder}:/here`, '--docker-mount', '/nowhere/at-all:/x:ro']
    const { code, stdout } = await ebb(['doctor', '--json', ...daemon().words, ...mounts], { home: temporaryHome() })
    const says = expect.stringContaining('There is no /nowhere/at-all on this host')
    expect(code).toBe(1)
    expect(JSON.parse(stdout.toString()).settings.slice(3)).toEqual([
      { setting: 'docker.mount', isGood: true, says: `${folder} is there` },
      { setting: 'docker.mount', isGood: false, says },
    ])
    await using own = await startServer([...daemon().words, ...mounts])
    await expect.poll(() => own.ebb.errorOutput(), { timeout: 20_000 }).toContain('There is no /nowhere/at-all on this host')
  })

  it('other settings without an image are reported by the doctor, and by the server at its start', async () => {
    const words = ['--docker-network', 'none', '--docker-mount', '/:/x']
    const { code, stdout } = await ebb(['doctor', '--json', ...words], { home: temporaryHome() })
    const says = expect.stringContaining('docker.network and docker.mount are set')
    expect({ code, settings: JSON.parse(stdout.toString()).settings }).toEqual({
      code: 1,
      settings: [{ setting: 'docker.image', isGood: false, says }],
    })
    await using own = await startServer(words)
    await expect.poll(() => own.ebb.errorOutput(), { timeout: 20_000 }).toContain('the placement docker needs docker.image')
  })

  it('DOCKER_HOST is validated like the setting, before anything else', async () => {
    for (const [words, env, name] of [
      [['--docker-host', 'ssh://somewhere'], {}, '--docker-host'],
      [[], { DOCKER_HOST: 'ssh://somewhere' }, 'DOCKER_HOST'],
    ] as const) {
      const result = await ebb(['doctor', '--docker-image', image, ...words], { home: temporaryHome(), env })
      expect(result).toMatchObject({ code: 2 })
      expect(result.stderr.toString()).toContain(`${name} must be unix:///PATH or tcp://HOST:PORT, not "ssh://somewhere".`)
    }
  })

  it('a missing image or an unreachable daemon refuses the launch and leaves no agent', async () => {
    await using own = await startServer(['--docker-image', 'nobody/has:this', '--docker-host', daemon().host])
    await using away = await startServer(['--docker-image', image, '--docker-host', 'unix:///nonexistent/docker.sock'])
    const body = { type: 'command', prompt: '', placement: 'docker', configuration: { command: ['true'] } }
    const refused = await own.call<Json>('POST', '/api/agents', { body })
    expect(refused).toMatchObject({ status: 400, body: { code: 'launch_refused', message: expect.stringContaining('docker pull') } })
    const unreachable = await away.call<Json>('POST', '/api/agents', { body })
    expect(unreachable).toMatchObject({ status: 400, body: { code: 'launch_refused', message: expect.stringContaining('docker.host') } })
    for (const one of [own, away]) expect(await one.get('/api/agents')).toEqual([])
  })
})
