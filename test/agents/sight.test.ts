import { type ChildProcess, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { Spoken } from '../support/conversation.ts'
import { waitUntil } from '../support/world.ts'
import { openScene, type Scene, stands } from './support/scene.ts'
import { leftOf, ownProcessesOf, processesOf } from './support/sight.ts'
import { requireLines } from './support/transcript.ts'

/** Tests of the checker in `support/sight.ts`: it must find everything that an agent leaves. */

async function end(child: ChildProcess): Promise<void> {
  const exited = once(child, 'exit')
  child.kill('SIGKILL')
  await exited
}

const noProcesses = new Set<string>()

describe('checker: finds a leftover of an agent', () => {
  it('without environment, parent and working folder of the agent', async () => {
    await using scene = await openScene('claude-code')
    const child = spawn('bash', ['-c', `exec -a ${scene.name('daemon')} sleep 600`], { cwd: '/', env: {}, detached: true })
    await stands(scene, ['daemon'])
    expect(leftOf(scene, noProcesses)).toEqual([expect.stringContaining(scene.name('daemon'))])
    expect(leftOf(scene, ownProcessesOf(scene))).toEqual([])
    await end(child)
    expect(leftOf(scene, noProcesses)).toEqual([])
  })

  it('identified only by its working folder', async () => {
    await using scene = await openScene('claude-code')
    const child = spawn('sleep', ['600'], { cwd: scene.work, env: {} })
    await once(child, 'spawn')
    expect(leftOf(scene, noProcesses)).toEqual([expect.stringContaining(`process ${child.pid}`)])
    await end(child)
  })

  it('identified only by the environment tag of its runner', async () => {
    await using scene = await openScene('claude-code')
    const id = randomUUID()
    writeFileSync(join(scene.runnerHome, 'installation.json'), JSON.stringify({ id }))
    const child = spawn('sleep', ['600'], { cwd: '/', env: { EBB_SCOPE: `${id}/1/agent.1` } })
    await once(child, 'spawn')
    const left = leftOf(scene, noProcesses)
    await end(child)
    expect(left).toEqual([expect.stringContaining(`process ${child.pid}`)])
  })

  it("named like Ebb's sentinel", async () => {
    await using scene = await openScene('claude-code')
    const child = spawn('bash', ['-c', 'exec -a ebb-sentinel sleep 600'], { cwd: scene.work, env: {} })
    await waitUntil(() => processesOf(scene).some(({ argv }) => argv.startsWith('ebb-sentinel')), 10_000, 'it runs')
    expect(leftOf(scene, noProcesses)).toHaveLength(1)
    await end(child)
  })

  it.each([
    ['a temporary file', (scene: Scene) => join(scene.temp, 'cc-socks')],
    ['a snapshot of a shell', (scene: Scene) => join(scene.agentHome, '.claude/shell-snapshots/snapshot-bash-1-x.sh')],
    ['a session that has ended', (scene: Scene) => join(scene.agentHome, '.claude/sessions/123.json')],
    ['a log that was not archived', (scene: Scene) => join(scene.home, 'logs/x.log')],
    ['a log at the runner', (scene: Scene) => join(scene.runnerHome, 'logs/x.log')],
  ])('that is %s', async (_, place) => {
    await using scene = await openScene('claude-code')
    mkdirSync(join(place(scene), '..'), { recursive: true })
    writeFileSync(place(scene), '')
    expect(leftOf(scene, noProcesses)).toHaveLength(1)
  })
})

describe('checker: rejects a transcript that is not complete', () => {
  const lines = ['{"type":"a"}', 'no JSON', '{"type":"b"}']
  const message = (content: string, raw?: object): Spoken => ({ id: '', sequenceNumber: 1, type: 'system', content, ...(raw && { raw }) })
  const whole = [message('A', { type: 'a' }), message('more of A'), message('no JSON'), message('B', { type: 'b' })]

  it('accepts a complete one, in which a line may be several messages', () => {
    requireLines(lines, whole)
  })

  it.each([
    ['a line has no message', [whole[0], whole[2]]],
    ['two lines are in another order', [whole[3], whole[2], whole[0]]],
    ['a line occurs twice', [whole[0], whole[0], whole[2], whole[3]]],
    ['there are more messages at its end', [...whole, whole[3]]],
    ['a line was changed', [whole[0], whole[2], message('B', { type: 'c' })]],
    ['a line was not parsed', [{ ...message(lines[0] ?? '', { type: 'a' }), type: 'response' }, whole[2], whole[3]]],
  ])('when %s', (_, messages) => {
    expect(() => requireLines(lines, messages as Spoken[])).toThrow()
  })
})
