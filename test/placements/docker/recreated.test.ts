import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { image, type TestContainer } from '../../support/docker.ts'
import { containerOf, inDocker, shell, useDockerd } from '../../support/docker-agents.ts'
import { missing, needs } from '../../support/real.ts'
import { ended, hasSaid, lines } from '../../support/said.ts'
import { type Json, startServer, type TestServer } from '../../support/server.ts'

needs('docker')
const daemon = useDockerd()

let server: TestServer
beforeAll(async () => {
  // The reaper makes no timed passes, because a test counts the passes that it requests.
  const reaping = ['--reaper-minimum-age', '1ms', '--reaper-interval', '1h']
  if (missing('docker') === undefined) server = await startServer([...daemon().words, ...reaping])
})
afterAll(async () => await server?.stop())

const sleeper = shell('echo up; exec sleep 1000')

/** Recreates a container as tools do: a new one with the same name and labels and another id, then the old one is removed. */
function recreate(id: string): void {
  const format = '{{.Name}}{{range $name, $value := .Config.Labels}}\n{{$name}}={{$value}}{{end}}'
  const [name = '', ...labels] = daemon().docker('inspect', '-f', format, id).split('\n')
  const words = labels.filter(Boolean).flatMap((label) => ['--label', label])
  daemon().docker('rename', id, 'old')
  daemon().docker('run', '-d', '--network', 'none', '--name', name.slice(1), ...words, image, 'sleep', '1000')
  daemon().docker('rm', '-f', '-v', id)
}

/** An image made from a container has its labels, and so has every container started from that image. */
function committed(id: string, name: string, ...words: readonly string[]): string {
  daemon().docker('commit', id, 'dbg:1')
  return daemon().docker('run', '-d', '--network', 'none', '--name', name, ...words, 'dbg:1', 'sleep', '1000')
}

const ids = (all: readonly TestContainer[] = daemon().containers()): readonly string[] => all.map(({ id }) => id)

async function expectNothingLeft(): Promise<void> {
  expect(ids()).toEqual([])
  expect(await server.get('/api/cleanup/status')).toMatchObject({ runningProcesses: 0, resources: {}, leaks: [], stuck: [], heldBack: [] })
}

describe('docker: a container with the labels of an agent and another id', () => {
  it("that replaced the agent's container is removed at the agent's end, and nothing is reported as gone before (G2, G3)", async () => {
    const id = await inDocker(server, sleeper)
    await hasSaid(server, id, 1)
    recreate(containerOf(daemon(), id))
    expect(await ended(server, id)).toMatchObject({ status: 'failed' })
    await expectNothingLeft()
    const report = await server.post<Json>(`/api/agents/${id}/stop`)
    const containers = report.resources.filter(({ kind }: Json) => kind === 'container')
    expect(containers).toMatchObject([{ outcome: 'released', notes: [expect.stringContaining('its last output may be missing')] }])
    expect(await lines(server, id)).toEqual(['up'])
  })

  it("that runs beside the agent's container is removed by the same close; exit code and output are the agent's own", async () => {
    const id = await inDocker(server, shell('trap "echo bye; exit 5" TERM; echo up; while :; do sleep 0.05; done'))
    await hasSaid(server, id, 1)
    committed(containerOf(daemon(), id), 'debug1')
    const report = await server.post<Json>(`/api/agents/${id}/stop`)
    expect(report).toMatchObject({ success: true })
    expect(report.resources.filter(({ kind }: Json) => kind.startsWith('container'))).toHaveLength(2)
    expect(await server.get(`/api/agents/${id}`)).toMatchObject({ status: 'terminated', exitCode: 5 })
    expect(await lines(server, id)).toEqual(['up', 'bye'])
    await expectNothingLeft()
  })

  it('is removed by force and by deletion', async () => {
    const forced = await inDocker(server, sleeper)
    const deleted = await inDocker(server, sleeper)
    for (const [index, id] of [forced, deleted].entries()) {
      await hasSaid(server, id, 1)
      committed(containerOf(daemon(), id), `beside-${index}`)
    }
    expect(await server.post(`/api/agents/${forced}/stop`, { force: true })).toMatchObject({ success: true })
    expect(await server.call('DELETE', `/api/agents/${deleted}`)).toMatchObject({ status: 204 })
    await expectNothingLeft()
  })

  it("that is created after the agent's end is not in the ledger, and the reaper removes it", async () => {
    const id = await inDocker(server, sleeper)
    await hasSaid(server, id, 1)
    daemon().docker('commit', containerOf(daemon(), id), 'dbg:1')
    expect(await server.post(`/api/agents/${id}/stop`)).toMatchObject({ success: true })
    daemon().docker('run', '-d', '--network', 'none', '--name', 'late', 'dbg:1', 'sleep', '1000')
    expect(await server.get('/api/cleanup/status')).toMatchObject({ isClean: false, leaks: ['container late'] })
    await server.post('/api/reaper/run')
    expect((await server.post<Json>('/api/reaper/run')).released).toMatchObject([{ kind: 'container', name: 'late' }])
    await expectNothingLeft()
  })

  it("is left alone when a label says that it is not Ebb's (G10)", async () => {
    const id = await inDocker(server, sleeper)
    await hasSaid(server, id, 1)
    const kept = committed(containerOf(daemon(), id), 'kept', '--label', 'ebb.installation=')
    expect(await server.post(`/api/agents/${id}/stop`)).toMatchObject({ success: true })
    expect(ids()).toEqual([kept])
    daemon().docker('rm', '-f', '-v', kept)
    await expectNothingLeft()
  })
})
