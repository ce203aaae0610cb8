import { readFileSync, statSync, truncateSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { containerOf, gateFolder, inDocker, shell, untilOpen, useDockerd } from '../../support/docker-agents.ts'
import { ebb, temporaryHome } from '../../support/home.ts'
import { needs } from '../../support/real.ts'
import { ended, hasSaid, lines } from '../../support/said.ts'
import { type Json, startServer, type TestServer } from '../../support/server.ts'
import { waitUntil } from '../../support/world.ts'

needs('docker')
const daemon = useDockerd()

const archive = (server: TestServer, id: string): string => readFileSync(join(server.home, 'archive', id, 'stdout.log'), 'utf8')
const notesOf = (report: Json): string[] => report.resources.flatMap(({ notes }: Json) => notes ?? [])

const logOf = (id: string): string => daemon().docker('inspect', '-f', '{{.LogPath}}', id)

describe('docker: the output of an agent', () => {
  it('is copied as fast as the daemon sends it, however short its lines are', async () => {
    await using server = await startServer(daemon().words)
    const id = await inDocker(server, shell('yes | head -c 200000; seq 1 20000'))
    for (let status = 'running'; status === 'running'; ) ({ status } = await ended(server, id))
    const log = archive(server, id)
    expect(log.slice(0, 200_000)).toBe('y\n'.repeat(100_000))
    expect(log.slice(200_000)).toBe(Array.from({ length: 20_000 }, (_, index) => `${index + 1}\n`).join(''))
  })

  it('is copied up to the limit of its launch, and the report says that there was more', async () => {
    await using server = await startServer(daemon().words)
    const id = await inDocker(server, shell('seq 1 20000; exec sleep 1000'), { limits: { logBytes: 20_000 } })
    expect(await ended(server, id)).toMatchObject({ status: 'failed' })
    expect(archive(server, id)).toHaveLength(20_001)
    const [newest] = await server.get<Json[]>('/api/cleanup/history')
    const { report } = await server.get<Json>(`/api/cleanup/history/${newest.id}`)
    expect(notesOf(report)).toContainEqual(expect.stringContaining('more than 20000 bytes'))
    expect(daemon().containers()).toEqual([])
  })

  it("is kept, and the report says so, when the daemon's log of it is truncated", async () => {
    const gate = gateFolder(daemon())
    await using server = await startServer(gate.words)
    const id = await inDocker(
      server,
      shell(`echo before; ${untilOpen('one')}; echo after; ${untilOpen('two')}; echo last; exec sleep 1000`),
    )
    await hasSaid(server, id, 1)
    const log = logOf(containerOf(daemon(), id))
    truncateSync(log)
    gate.open('one')
    await waitUntil(() => statSync(log).size > 0, 10_000, 'the agent writes again')
    gate.open('two')
    await waitUntil(() => readFileSync(log, 'utf8').includes('last'), 10_000, 'the agent has written everything')
    const report = await server.post<Json>(`/api/agents/${id}/stop`)
    expect(notesOf(report)).toContainEqual(expect.stringContaining('shortened'))
    expect(archive(server, id)).toBe('before\nafter\nlast\n')
    expect(await lines(server, id)).toEqual(['before', 'after', 'last'])
  })
})

describe('docker: an agent that had not read its whole prompt when its server was killed', () => {
  /** A prompt that is larger than the buffers of a pipe, a socket and the daemon together. */
  const prompt = 'ä'.repeat(1_000_000)

  it.each(['the next server', 'ebb recover'])('is ended by %s, because it would work on half of its prompt', async (recoverer) => {
    const home = temporaryHome()
    const gate = gateFolder(daemon())
    const first = await startServer(gate.words, { home })
    const id = await inDocker(first, shell(`echo up; ${untilOpen('open')}; wc -c; exec sleep 1000`), {}, { prompt })
    await hasSaid(first, id, 1)
    first.ebb.signal('SIGKILL')
    await first.ebb.ended
    if (recoverer === 'ebb recover') {
      expect((await ebb(['recover', ...gate.words], { home })).code).toBe(0)
      // The sentinel of the first server may have claimed the recovery instead of `ebb recover`.
      await waitUntil(() => daemon().containers(), 20_000, 'the recovery removes the container')
    }
    await using second = await startServer(gate.words, { home })
    expect(await ended(second, id)).toMatchObject({ status: 'failed' })
    await waitUntil(() => daemon().containers(), 20_000, 'the container is removed')
    expect(await lines(second, id)).toEqual(['up'])
  })

  it('is kept when it read everything, however late', async () => {
    const home = temporaryHome()
    const gate = gateFolder(daemon())
    const first = await startServer(gate.words, { home })
    const id = await inDocker(first, shell(`echo up; ${untilOpen('open')}; wc -c; exec sleep 1000`), {}, { prompt })
    await hasSaid(first, id, 1)
    gate.open()
    await hasSaid(first, id, 2)
    first.ebb.signal('SIGKILL')
    await first.ebb.ended
    await using second = await startServer(gate.words, { home })
    expect(await second.get(`/api/agents/${id}`)).toMatchObject({ status: 'running' })
    expect(await lines(second, id)).toEqual(['up', '2000000'])
    expect(await second.post(`/api/agents/${id}/stop`)).toMatchObject({ success: true })
  })
})
