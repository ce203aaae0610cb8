import { type ChildProcess, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { Spoken } from '../support/conversation.ts'
import { waitUntil } from '../support/world.ts'
import { openScene, type Scene, stands } from './support/scene.ts'
import { leftOf, processesOf, staffOf } from './support/sight.ts'
import { requireLines } from './support/transcript.ts'

/** The checker itself: it sees what it must not overlook. */

async function end(child: ChildProcess): Promise<void> {
  const exited = once(child, 'exit')
  child.kill('SIGKILL')
  await exited
}

const nobody = new Set<string>()

describe('what is left of an agent is seen', () => {
  it('when it has no environment, no parent and another folder', async () => {
    await using scene = await openScene('claude-code')
    const child = spawn('bash', ['-c', `exec -a ${scene.name('daemon')} sleep 600`], { cwd: '/', env: {}, detached: true })
    await stands(scene, ['daemon'])
    expect(leftOf(scene, nobody)).toEqual([expect.stringContaining(scene.name('daemon'))])
    expect(leftOf(scene, staffOf(scene))).toEqual([])
    await end(child)
    expect(leftOf(scene, nobody)).toEqual([])
  })

  it('when only the folder it works in tells whose it is', async () => {
    await using scene = await openScene('claude-code')
    const child = spawn('sleep', ['600'], { cwd: scene.work, env: {} })
    await once(child, 'spawn')
    expect(leftOf(scene, nobody)).toEqual([expect.stringContaining(`process ${child.pid}`)])
    await end(child)
  })

  it('when only the cookie of its runner tells whose it is', async () => {
    await using scene = await openScene('claude-code')
    const id = randomUUID()
    writeFileSync(join(scene.runnerHome, 'installation.json'), JSON.stringify({ id }))
    const child = spawn('sleep', ['600'], { cwd: '/', env: { EBB_SCOPE: `${id}/1/agent.1` } })
    await once(child, 'spawn')
    const left = leftOf(scene, nobody)
    await end(child)
    expect(left).toEqual([expect.stringContaining(`process ${child.pid}`)])
  })

  it('when it calls itself what our sentinel is called', async () => {
    await using scene = await openScene('claude-code')
    const child = spawn('bash', ['-c', 'exec -a ebb-sentinel sleep 600'], { cwd: scene.work, env: {} })
    await waitUntil(() => processesOf(scene).some(({ argv }) => argv.startsWith('ebb-sentinel')), 10_000, 'it runs')
    expect(leftOf(scene, nobody)).toHaveLength(1)
    await end(child)
  })

  it.each([
    ['a temporary file', (scene: Scene) => join(scene.temp, 'cc-socks')],
    ['a snapshot of a shell', (scene: Scene) => join(scene.agentHome, '.claude/shell-snapshots/snapshot-bash-1-x.sh')],
    ['a session that is over', (scene: Scene) => join(scene.agentHome, '.claude/sessions/123.json')],
    ['a log that nobody archived', (scene: Scene) => join(scene.home, 'logs/x.log')],
    ['a log at the runner', (scene: Scene) => join(scene.runnerHome, 'logs/x.log')],
  ])('when it is %s', async (_, place) => {
    await using scene = await openScene('claude-code')
    mkdirSync(join(place(scene), '..'), { recursive: true })
    writeFileSync(place(scene), '')
    expect(leftOf(scene, nobody)).toHaveLength(1)
  })
})

describe('a transcript is not whole', () => {
  const lines = ['{"type":"a"}', 'no JSON', '{"type":"b"}']
  const message = (content: string, raw?: object): Spoken => ({ id: '', sequenceNumber: 1, type: 'system', content, ...(raw && { raw }) })
  const whole = [message('A', { type: 'a' }), message('more of A'), message('no JSON'), message('B', { type: 'b' })]

  it('or it is, and a line may be several messages', () => {
    requireLines(lines, whole)
  })

  it.each([
    ['a line has no message', [whole[0], whole[2]]],
    ['two lines are in another order', [whole[3], whole[2], whole[0]]],
    ['a line is there twice', [whole[0], whole[0], whole[2], whole[3]]],
    ['there is more at its end', [...whole, whole[3]]],
    ['a line was changed', [whole[0], whole[2], message('B', { type: 'c' })]],
    ['a line was not understood', [{ ...message(lines[0] ?? '', { type: 'a' }), type: 'response' }, whole[2], whole[3]]],
  ])('when %s', (_, messages) => {
    expect(() => requireLines(lines, messages as Spoken[])).toThrow()
  })
})
