import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { image, type TestContainer } from '../../support/docker.ts'
import { containerOf, inDocker, shell, useDockerd } from '../../support/docker-agents.ts'
import { ebb, root, temporaryHome } from '../../support/home.ts'
import { installationOf } from '../../support/ledger-file.ts'
import { needs } from '../../support/real.ts'
import { hasSaid } from '../../support/said.ts'
import { type Json, startServer } from '../../support/server.ts'
import { openSupervisor } from '../../support/supervisor.ts'

needs('docker')
const daemon = useDockerd()

const start = (...options: readonly string[]): string =>
  daemon().docker('run', '-d', '--network', 'none', ...options, image, 'sleep', '1000')

const labels = (of: Readonly<Record<string, string>>): readonly string[] =>
  Object.entries(of).flatMap(([name, value]) => ['--label', `ebb.${name}=${value}`])

/** Starts containers that look like containers of Ebb and are foreign. */
function placeDecoys(agentId: string): readonly string[] {
  const strange = { installation: 'ffffffffffff', incarnation: 'aaaaaaaaaaaa-1-2-3', scope: agentId, resource: `${agentId}.3` }
  return [
    start('--name', 'somebody-elses'),
    start('--name', `ebb-${randomUUID()}.3`),
    start('--name', 'neighbour', ...labels(strange)),
    start('--name', 'half', ...labels({ scope: agentId, resource: `${agentId}.3` })),
  ]
}

const running = (): readonly TestContainer[] =>
  daemon()
    .containers()
    .filter(({ state }) => state === 'running')

function expectUntouched(decoys: readonly string[]): void {
  expect(
    running()
      .map(({ id }) => id)
      .toSorted(),
  ).toEqual([...decoys].toSorted())
}

function removeAll(): void {
  for (const { id } of daemon().containers()) daemon().docker('rm', '-f', id)
}

describe('docker: foreign containers (G10)', () => {
  it('are untouched by stop, delete, reset, reaper, recovery and the end of the server', async () => {
    const home = temporaryHome()
    const server = await startServer([...daemon().words, '--reaper-minimum-age', '1ms'], { home })
    const agents = await Promise.all(Array.from({ length: 3 }, () => inDocker(server, shell('echo up; exec sleep 1000'))))
    for (const id of agents) await hasSaid(server, id, 1)
    const [first = '', second = ''] = agents
    const decoys = placeDecoys(first)
    expect(await server.post(`/api/agents/${first}/stop`)).toMatchObject({ success: true })
    expect(await server.call('DELETE', `/api/agents/${second}`)).toMatchObject({ status: 204 })
    for (let pass = 0; pass < 3; pass++) await server.post('/api/reaper/run')
    expect(await server.post('/api/test/reset-environment')).toMatchObject({ success: true })
    expectUntouched(decoys)
    await inDocker(server, shell('echo up; exec sleep 1000'))
    await server.stop()
    expect((await ebb(['recover', ...daemon().words], { home })).code).toBe(0)
    expect((await ebb(['reap', '--elsewhere', '--reaper-minimum-age', '1ms', ...daemon().words], { home })).code).toBe(0)
    expectUntouched(decoys)
    removeAll()
  })

  it('a container with the name of a new agent makes the launch fail and stays', async () => {
    const flags = { dockerImage: image, dockerHost: daemon().host, dockerNetwork: 'none' }
    await using supervisor = await openSupervisor({ flags })
    let decoy = ''
    const launch = supervisor.launch((scopeId) => {
      decoy = start('--name', `ebb-${scopeId}.3`)
      const where = { argv: ['sleep', '1000'], env: {}, cwd: '/', output: 'logs', stdin: { text: '' } } as const
      return supervisor.plan(scopeId, { placement: 'docker', ...where })
    })
    await expect(launch).rejects.toThrow(/A container ebb-.* exists already and is not of this launch; it was left alone/)
    expectUntouched([decoy])
    expect(daemon().containers()).toHaveLength(1)
    removeAll()
  })

  it('a server does not see the containers of another server on the same daemon', async () => {
    await using one = await startServer(daemon().words)
    await using other = await startServer(daemon().words)
    const id = await inDocker(one, shell('echo up; exec sleep 1000'))
    await hasSaid(one, id, 1)
    expect(await other.get('/api/cleanup/status')).toMatchObject({ isClean: true, runningProcesses: 0 })
    expect(await other.post('/api/test/reset-environment')).toMatchObject({ success: true })
    expect(running()).toHaveLength(1)
    expect(await one.post(`/api/agents/${id}/stop`)).toMatchObject({ success: true })
  })
})

describe("docker: containers with Ebb's labels and without a ledger record", () => {
  it('are shown by a dry run without changes, and removed by the reaper when they are old enough', async () => {
    const home = temporaryHome()
    await using server = await startServer([...daemon().words, '--reaper-minimum-age', '1ms'], { home })
    const scope = randomUUID()
    const installation = installationOf(home) ?? ''
    const [incarnation, resource] = ['aaaaaaaaaaaa-1-2-3', `${scope}.3`]
    // The process of this container also carries the environment tag, as in a container of Ebb.
    const env = ['--env', `EBB_SCOPE=${installation}/${incarnation}/${resource}+container`]
    start('--name', 'orphan', ...env, ...labels({ installation, incarnation, scope, resource }))
    const dry = await ebb(['reap', '--dry-run', '--json', ...daemon().words], { home })
    expect(JSON.parse(dry.stdout.toString()).found).toMatchObject([{ kind: 'container', name: 'orphan', why: 'unrecorded' }])
    expect(await server.get('/api/cleanup/status')).toMatchObject({ isClean: false })
    expect(running()).toHaveLength(1)
    await server.post('/api/reaper/run')
    const { released } = await server.post<Json>('/api/reaper/run')
    expect(released).toMatchObject([{ kind: 'container', name: 'orphan' }])
    expect(daemon().containers()).toEqual([])
  })
})

describe('docker: without the package dockerode', () => {
  it('a launch is refused with a hint to install it, and everything else works', async () => {
    const hidden = join(root, 'test', 'fixtures', 'hides-dockerode.ts')
    await using server = await startServer(daemon().words, { env: { NODE_OPTIONS: `--import=${hidden}` } })
    const body = { type: 'command', prompt: '', placement: 'docker', configuration: { command: ['true'] } }
    expect(await server.call<Json>('POST', '/api/agents', { body })).toMatchObject({
      status: 400,
      body: { code: 'launch_refused', message: expect.stringContaining('npm install dockerode') },
    })
    expect(await server.get('/api/agents')).toEqual([])
    const id = await server.command(['sh', '-c', 'echo here'], {
      configuration: { command: ['sh', '-c', 'echo here'], env: { NODE_OPTIONS: '' } },
    })
    expect(await server.get(`/api/agents/${id}/status?wait=20000`)).toMatchObject({ status: 'completed' })
  })

  it('containers of an earlier server are unknown, not gone (G4)', async () => {
    const home = temporaryHome()
    const first = await startServer(daemon().words, { home })
    const id = await inDocker(first, shell('echo up; exec sleep 1000'))
    await hasSaid(first, id, 1)
    const container = containerOf(daemon(), id)
    first.ebb.signal('SIGKILL')
    await first.ebb.ended
    const hidden = join(root, 'test', 'fixtures', 'hides-dockerode.ts')
    const second = await startServer(daemon().words, { home, env: { NODE_OPTIONS: `--import=${hidden}` } })
    expect(await second.call('DELETE', `/api/agents/${id}?timeout=500`)).toMatchObject({ status: 409 })
    expect(running().map(({ id }) => id)).toEqual([container])
    second.ebb.signal('SIGKILL')
    await second.ebb.ended
    await using third = await startServer(daemon().words, { home })
    // The close request is in the ledger, and the recovery completes it (G6).
    expect(await third.call('GET', `/api/agents/${id}`)).toMatchObject({ status: 404 })
    expect(daemon().containers()).toEqual([])
  })
})
