import { execFileSync } from 'node:child_process'
import { appendFileSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { zstdDecompressSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import { Retention } from '../../../src/agents/retention.ts'
import type { RetentionRules } from '../../../src/core/model/retention.ts'
import { partsOf } from '../../support/engine-parts.ts'
import { hookOn } from '../../support/hooked.ts'
import { tmpfs } from '../../support/mounts.ts'
import { needs } from '../../support/real.ts'
import { openWorkspaceAgents, type WorkspaceAgents } from '../../support/workspace-agents.ts'
import { waitUntil } from '../../support/world.ts'

/** The archives of agents: no line is lost while archiving, a deletion leaves nothing, and foreign files are not changed. */

const text = (path: string): string => readFileSync(path, 'utf8')
const name = 'builder-120501-1a2b3c'
const files = { stream: `${name}_stream.jsonl`, progress: `${name}_progress.jsonl`, findings: `${name}_findings.jsonl` }
const helloScript = 'echo hello; sleep 1000'

/** Launches an agent that has printed hello and reported progress, and still runs. */
async function waiting(scene: WorkspaceAgents): Promise<string> {
  const { id } = await scene.launch(name, helloScript, { progress: '{"progress":50}' })
  const live = join(scene.workspace, 'logs', files.stream)
  await waitUntil(() => text(live) === 'hello\n', 30_000, 'the agent has printed hello')
  return id
}

async function ended(scene: WorkspaceAgents, agentName = name, script = 'echo hello'): Promise<string> {
  const { id } = await scene.launch(agentName, script, { progress: '{"progress":100}', findings: '{"finding":1}' })
  await scene.ended(id)
  return id
}

/** Appends to a file until the disk is full. */
function fill(file: string): void {
  try {
    for (;;) appendFileSync(file, Buffer.alloc(4_096))
  } catch {
    // The disk is full.
  }
}

describe.each(['full', 'read-only'])('archive on a %s disk', (state) => {
  needs('root')

  it('holds the logs back in the ledger, ends the processes, and the next reaper pass archives the logs', async () => {
    await using scene = await openWorkspaceAgents()
    const folder = join(scene.workspace, 'archive')
    mkdirSync(folder, { mode: 0o700 })
    using _ = tmpfs(folder, '16k')
    const ballast = join(folder, 'ballast')
    const spoil = (): unknown => (state === 'full' ? fill(ballast) : execFileSync('mount', ['-o', 'remount,ro', folder]))
    const repair = (): unknown => (state === 'full' ? rmSync(ballast) : execFileSync('mount', ['-o', 'remount,rw', folder]))
    spoil()
    const id = await waiting(scene)

    const report = await scene.control.agents.stop(id, { graceMs: 100 })
    const outcomes = new Map(report.resources.map((resource) => [resource.name.replace(/.*\//, ''), resource.outcome]))
    expect(report.success).toBe(false)
    expect([outcomes.get(files.stream), outcomes.get(files.progress)]).toEqual(['held-back', 'held-back'])
    // No finding was ever written, so the log of findings is released without an archive.
    expect(outcomes.get(files.findings)).toBe('released')
    expect(report.errors.join()).toContain(state === 'full' ? 'ENOSPC' : 'EROFS')
    expect(await scene.control.processesOf(id)).toEqual([])
    expect(text(join(scene.workspace, 'logs', files.stream))).toBe('hello\n')
    expect(text(join(scene.workspace, 'progress', files.progress))).toBe('{"progress":50}\n')
    const owed = (await partsOf(scene.supervisor.engine).ledger.resources(id)).filter(
      ({ kind, state: resourceState }) => kind === 'log' && resourceState === 'closing',
    )
    expect(owed).toHaveLength(2)
    expect(readdirSync(folder)).toEqual(state === 'full' ? ['ballast'] : [])

    repair()
    expect(await scene.control.engine.reap({ dryRun: false })).toMatchObject({ left: [], errors: [] })
    expect(await scene.ended(id)).toMatchObject({ status: 'terminated' })
    expect([text(scene.archived(files.stream)), text(scene.archived(files.progress))]).toEqual(['hello\n', '{"progress":50}\n'])
  })
})

describe('archives of an agent', () => {
  it('are found through the ledger, in the workspace and in the home', async () => {
    await using scene = await openWorkspaceAgents()
    const id = await ended(scene)
    expect((await scene.control.agents.endedAgents.archivedFiles(id)).map(({ stream, path }) => [stream, path])).toEqual([
      ['stdout', scene.archived(files.stream)],
      ['progress', scene.archived(files.progress)],
      ['findings', scene.archived(files.findings)],
      ['stderr', join(scene.supervisor.home.archive, id, 'stderr.log')],
    ])
  })

  it('a deletion removes all of them and the empty folder, and keeps foreign files', async () => {
    await using scene = await openWorkspaceAgents()
    const [one, other] = [await ended(scene), await ended(scene, 'other-120501-aaaaaa')]
    const foreign = scene.archived('notes.txt')
    writeFileSync(foreign, 'mine')
    await scene.control.agents.remove(one, {})
    expect(readdirSync(dirname(foreign)).filter((file) => file.startsWith(name))).toEqual([])
    expect(existsSync(join(scene.supervisor.home.archive, one))).toBe(false)
    expect(text(scene.archived('other-120501-aaaaaa_stream.jsonl'))).toBe('hello\n')
    await scene.control.agents.remove(other, {})
    expect(readdirSync(dirname(foreign))).toEqual(['notes.txt'])
    rmSync(foreign)
    const last = await ended(scene)
    await scene.control.agents.remove(last, {})
    expect(existsSync(dirname(foreign))).toBe(false)
  })

  it.each(['the folder', 'the file'])(
    'a deletion fails when %s was replaced by a symlink: the agent is stuck and no file is removed',
    async (what) => {
      await using scene = await openWorkspaceAgents()
      const id = await ended(scene)
      const elsewhere = join(scene.base, 'elsewhere')
      mkdirSync(elsewhere)
      writeFileSync(join(elsewhere, files.stream), 'precious')
      const place = what === 'the folder' ? join(scene.workspace, 'archive') : scene.archived(files.stream)
      rmSync(place, { recursive: true })
      symlinkSync(what === 'the folder' ? elsewhere : join(elsewhere, files.stream), place)
      await expect(scene.control.agents.remove(id, {})).rejects.toMatchObject({ code: 'not_released' })
      expect(text(join(elsewhere, files.stream))).toBe('precious')
      expect((await scene.control.agents.get(id)).agent.status).toBe('stuck')
      rmSync(place)
      await scene.control.agents.remove(id, {})
      await expect(scene.control.agents.get(id)).rejects.toMatchObject({ code: 'agent_not_found' })
    },
  )

  it('a deletion that crashed between the archives and the ledger is finished by the next try', async () => {
    let isBroken = true
    const wrap = hookOn('ledger', (method, [settlement]) => {
      const isDeletion = method === 'settle' && (settlement as { forgottenScopeIds: readonly string[] }).forgottenScopeIds.length > 0
      if (isDeletion && isBroken) throw new Error('the ledger is broken')
    })
    await using scene = await openWorkspaceAgents({ wrap })
    const id = await waiting(scene)
    // The removal of the agent fails, because the ledger refuses the deletion.
    await scene.control.agents.remove(id, { force: true }).catch(() => {})
    expect(existsSync(join(scene.workspace, 'archive'))).toBe(false)
    isBroken = false
    await scene.control.agents.remove(id, {})
    await expect(scene.control.agents.get(id)).rejects.toMatchObject({ code: 'agent_not_found' })
  })
})

describe('dropLogs', () => {
  it('leaves no archive and no archive folder, and keeps the agent and its messages', async () => {
    await using scene = await openWorkspaceAgents()
    const id = await waiting(scene)
    const report = await scene.control.agents.stop(id, { graceMs: 100, dropLogs: true })
    expect(report).toMatchObject({ success: true, trigger: 'terminated' })
    expect(await scene.control.agents.endedAgents.archivedFiles(id)).toEqual([])
    expect([existsSync(join(scene.workspace, 'archive')), existsSync(join(scene.workspace, 'logs', files.stream))]).toEqual([false, false])
    expect(await scene.ended(id)).toMatchObject({ status: 'terminated' })
  })

  it('removes the archive of an ended agent, also when called twice', async () => {
    await using scene = await openWorkspaceAgents()
    const id = await ended(scene)
    const [first, second] = await Promise.all([1, 2].map(() => scene.control.agents.stop(id, { dropLogs: true })))
    expect([first?.success, second?.success]).toEqual([true, true])
    expect(await scene.control.agents.endedAgents.archivedFiles(id)).toEqual([])
    expect(await scene.ended(id)).toMatchObject({ status: 'completed' })
    await scene.control.agents.dropLogs(id)
  })

  it('removes logs that were archived before', async () => {
    await using scene = await openWorkspaceAgents()
    const id = await waiting(scene)
    // The progress log gets archived. The stream log cannot be archived, so it is held back.
    mkdirSync(scene.archived(files.stream), { recursive: true, mode: 0o700 })
    expect(await scene.control.agents.stop(id, { graceMs: 100 })).toMatchObject({ success: false })
    expect(existsSync(scene.archived(files.progress))).toBe(true)
    rmSync(scene.archived(files.stream), { recursive: true })
    expect(await scene.supervisor.engine.close(id, { trigger: 'terminated', dropLogs: true })).toMatchObject({ success: true })
    expect(existsSync(join(scene.workspace, 'archive'))).toBe(false)
  })

  it('is refused for a running agent', async () => {
    await using scene = await openWorkspaceAgents()
    const id = await waiting(scene)
    await expect(scene.control.agents.dropLogs(id)).rejects.toMatchObject({ code: 'invalid_request' })
    await scene.control.agents.remove(id, { force: true })
  })
})

describe('retention', () => {
  const manyLines = 'i=0; while [ $i -lt 2000 ]; do echo "the same line again"; i=$((i+1)); done'

  /** A retention whose clock is some days ahead. */
  function daysLater(scene: WorkspaceAgents, days: number, rules: Partial<RetentionRules>): Retention {
    const { clock, log } = scene.supervisor
    const wall = (): string => new Date(Date.parse(clock.wall()) + days * 86_400_000).toISOString()
    const { control, supervisor } = scene
    return new Retention({
      store: control.store,
      archives: supervisor.archives,
      clock: { ...clock, wall },
      log,
      rules: { byAgentType: new Map(), ...rules },
    })
  }

  it('compresses an old archive with zstd when that saves space, and counts the freed bytes', async () => {
    const freed: number[] = []
    await using scene = await openWorkspaceAgents({ onLogBytes: (what, bytes) => void (what === 'freed' && freed.push(bytes)) })
    const id = await ended(scene, name, manyLines)
    const before = text(scene.archived(files.stream))
    const retention = daysLater(scene, 8, { compressAfterDays: 7, maxAgeDays: 30 })
    expect(await retention.pass({ dryRun: true })).toMatchObject({ removed: [], compressed: [{ agentId: id }], errors: [] })
    expect(existsSync(scene.archived(files.stream))).toBe(true)
    const pass = await retention.pass({ dryRun: false })
    expect(pass).toMatchObject({ removed: [], compressed: [{ agentId: id }], errors: [] })
    expect(zstdDecompressSync(readFileSync(scene.archived(`${files.stream}.zst`))).toString()).toBe(before)
    expect(readdirSync(join(scene.workspace, 'archive')).toSorted()).toEqual(
      [files.findings, files.progress, `${files.stream}.zst`].toSorted(),
    )
    expect(freed).toEqual([pass.freedBytes])
    expect(pass.freedBytes).toBeGreaterThan(30_000)
    // The archives are already compressed, so the next two passes compress none. A pass 31 days later also removes the compressed file.
    for (const dryRun of [true, false]) expect(await retention.pass({ dryRun })).toMatchObject({ compressed: [] })
    expect(await daysLater(scene, 31, { maxAgeDays: 30 }).pass({ dryRun: false })).toMatchObject({ removed: [{ why: 'age' }] })
    expect([existsSync(join(scene.workspace, 'archive')), await scene.control.agents.endedAgents.archivedFiles(id)]).toEqual([false, []])
    expect((await scene.ended(id)).status).toBe('completed')
  })

  it('leaves archives of running agents, young archives and unknown folders alone', async () => {
    await using scene = await openWorkspaceAgents()
    const id = await waiting(scene)
    await ended(scene, 'young-120501-aaaaaa')
    mkdirSync(join(scene.supervisor.home.archive, 'unknown'))
    writeFileSync(join(scene.supervisor.home.archive, 'unknown', 'stdout.log'), 'whose?')
    const rules = { maxAgeDays: 30, byAgentType: new Map([['builder', { maxAgeDays: 0 }]]) }
    expect(await daysLater(scene, 29, rules).pass({ dryRun: false })).toMatchObject({ removed: [], compressed: [], errors: [] })
    expect(existsSync(join(scene.supervisor.home.archive, 'unknown', 'stdout.log'))).toBe(true)
    await scene.control.agents.remove(id, { force: true })
  })

  it('an archive that cannot be removed does not stop the removal of others', async () => {
    await using scene = await openWorkspaceAgents()
    const [bad, good] = [await ended(scene), await ended(scene, 'other-120501-aaaaaa')]
    const place = scene.archived(files.stream)
    rmSync(place)
    symlinkSync('/etc/passwd', place)
    const pass = await daysLater(scene, 31, { maxAgeDays: 30 }).pass({ dryRun: false })
    expect(pass).toMatchObject({ removed: [{ archive: { agentId: good } }], errors: [expect.stringContaining(bad)] })
  })

  it('a crash during a compression leaves the original, and the half-made file is removed later', async () => {
    let isBroken = true
    const wrap = hookOn('effects', (method) => {
      if (method === 'rename' && isBroken) throw new Error('power is gone')
    })
    await using scene = await openWorkspaceAgents({ wrap })
    isBroken = false
    const id = await ended(scene, name, manyLines)
    const folder = join(scene.workspace, 'archive')
    isBroken = true
    const retention = daysLater(scene, 0, { compressAfterDays: -1 })
    expect(await retention.pass({ dryRun: false })).toMatchObject({ compressed: [], errors: [expect.stringContaining('power is gone')] })
    const staged = readdirSync(folder).filter((file) => file.startsWith('.'))
    expect([staged.length, existsSync(scene.archived(files.stream))]).toEqual([1, true])
    isBroken = false
    // The incomplete file is young, so it may belong to a compression that is still running.
    expect(await retention.pass({ dryRun: false })).toMatchObject({ compressed: [], errors: [] })
    utimesSync(join(folder, staged[0] ?? ''), 0, 0)
    expect(await retention.pass({ dryRun: false })).toMatchObject({ compressed: [{ agentId: id }] })
    expect(readdirSync(folder).filter((file) => file.startsWith('.'))).toEqual([])
  })
})
