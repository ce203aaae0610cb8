import { describe, expect, it } from 'vitest'
import { realClock } from '../../../src/host/clock.ts'
import { Daemon } from '../../../src/placements/docker/daemon.ts'
import type { DockerQueries } from '../../../src/placements/docker/ports.ts'
import { queriesOf } from '../../../src/placements/docker/queries.ts'
import type { TestContainer } from '../../support/docker.ts'
import { containerOf, inDocker, shell, useDockerd } from '../../support/docker-agents.ts'
import { ebb, temporaryHome } from '../../support/home.ts'
import { needs } from '../../support/real.ts'
import { hasSaid, lines } from '../../support/said.ts'
import { type Json, startServer } from '../../support/server.ts'
import { waitUntil } from '../../support/world.ts'

needs('docker')
const daemon = useDockerd()
const other = useDockerd()

const openQueries = (host: string): DockerQueries => queriesOf(new Daemon({ host }, realClock))

const waiting = shell('echo up; exec sleep 1000')

describe('docker: a server started with the address of another daemon', () => {
  it('reports no container as gone and names both daemons; the first address proves everything (G3, G4)', {
    timeout: 120_000,
  }, async () => {
    const home = temporaryHome()
    const first = await startServer(daemon().words, { home })
    const id = await inDocker(first, waiting)
    await hasSaid(first, id, 1)
    const container = containerOf(daemon(), id)
    first.ebb.signal('SIGKILL')
    await first.ebb.ended

    expect((await ebb(['recover', ...other().words], { home })).code).toBe(0)
    const second = await startServer(other().words, { home })
    expect(await second.get(`/api/agents/${id}`)).toMatchObject({ status: 'running' })
    const answer = await second.call<Json>('POST', `/api/agents/${id}/stop`, { body: { timeout: 1_000 } })
    expect(answer).toMatchObject({ status: 409, body: { code: 'not_released' } })
    for (const { host } of [daemon(), other()]) expect(JSON.stringify(answer.body)).toContain(host)
    expect(answer.body.details.resources.map(({ kind, outcome }: Json) => `${kind} ${outcome}`)).toEqual(
      expect.arrayContaining(['container held-back', 'container-run stuck']),
    )
    expect(daemon().containers()).toMatchObject([{ id: container }])
    second.ebb.signal('SIGKILL')
    await second.ebb.ended

    await using third = await startServer(daemon().words, { home })
    // The sentinel of the second server has that server's settings and may still be running a recovery.
    const afterReaping = async (): Promise<readonly TestContainer[]> => {
      await third.post('/api/reaper/run')
      return daemon().containers()
    }
    await waitUntil(afterReaping, 40_000, 'the container is removed')
    expect(await lines(third, id)).toEqual(['up'])
    expect(await third.get('/api/cleanup/status')).toMatchObject({ resources: {}, stuck: [] })
  })
})

describe('docker: whether a container name is free', () => {
  it('is answered by the daemon, and the query creates nothing', async () => {
    const queries = openQueries(daemon().host)
    expect(await queries.isNameFree('ebb-nobody.3')).toBe(true)
    expect(daemon().containers()).toEqual([])
    const taken = daemon().docker('create', '--name', 'ebb-somebody.3', '--network', 'none', 'bb:1', 'true')
    expect(await queries.isNameFree('ebb-somebody.3')).toBe(false)
    expect(await queries.isNameFree('ebb-nobody.3')).toBe(true)
    daemon().docker('rm', '-f', taken)
    await expect(openQueries('unix:///nonexistent/docker.sock').isNameFree('ebb-nobody.3')).rejects.toThrow('does not answer')
  })

  it('every daemon keeps an identity of its own', async () => {
    const [one, two] = await Promise.all([daemon(), other()].map(({ host }) => openQueries(host).identity()))
    expect(one).not.toBe(two)
    await daemon().kill()
    await daemon().start()
    expect(await openQueries(daemon().host).identity()).toBe(one)
  })
})
