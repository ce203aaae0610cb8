import { describe, expect, it } from 'vitest'
import { logLabels } from '../../../../src/core/ports/agent-log.ts'
import { Handles } from '../../../../src/core/ports/handles.ts'
import type { CreateCtx, Ctx, DetailOf, IntentOf } from '../../../../src/core/ports/kind.ts'
import type { TreeHandle } from '../../../../src/core/ports/process.ts'
import { RemoteAgentKind } from '../../../../src/placements/remote/kind.ts'
import type { RemoteAgentSpec, RunnerNews, RunnerStatus, remoteAgentKind } from '../../../../src/placements/remote/ports.ts'
import { VirtualClock } from '../../../support/virtual-clock.ts'

/** How the remote-agent kind handles the answers of a runner, and missing answers. */

const url = 'http://runner.test'
const spec: RemoteAgentSpec = { installation: 'ours', url }
const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }

/** A fake runner that the test controls. */
class Scene {
  readonly clock = new VirtualClock()
  readonly queued: RunnerNews[] = []
  readonly calls: string[] = []
  readonly written: string[] = []
  readonly recorded: unknown[] = []
  installation: string | undefined = 'theirs'
  /** The runner's answer to a status call. Undefined when the runner does not answer. */
  status: RunnerStatus | undefined = { is: 'not-found' }
  appendFailures = 0
  #wake = (): void => {}
  #isCut = false
  #isHungUp = false

  readonly kind = new RemoteAgentKind({
    effects: {
      append: (_path, text) => {
        if (this.appendFailures-- > 0) throw new Error('ENOSPC: no space left on device')
        this.written.push(Buffer.from(text).toString())
      },
    },
    clock: this.clock,
    log: silent,
    limitBytes: 1_000,
    tokenFor: () => 'token',
    queries: {
      health: async () => ({ activeAgents: 0, ...(this.installation !== undefined && { installation: this.installation }) }),
      status: async (_call, agentId) => {
        this.calls.push(`status ${agentId}`)
        if (!this.status) throw new Error('The runner does not answer.')
        return { ...this.status, ...(this.installation !== undefined && { installation: this.installation }) }
      },
    },
    runner: {
      stop: async (_call, agentId, isForced) => {
        this.calls.push(`stop ${agentId}${isForced ? ' by force' : ''}`)
        return this.status?.is === 'known' ? 'stopped' : 'not-found'
      },
      stream: async () => ({ agentId: 'theirs-1', news: this.#news(), hangUp: () => this.#end('hung up') }),
    },
  })

  get isHungUp(): boolean {
    return this.#isHungUp
  }

  send(...news: readonly RunnerNews[]): void {
    this.queued.push(...news)
    this.#wake()
  }

  cut(): void {
    this.#end('cut')
  }

  #end(how: 'hung up' | 'cut'): void {
    if (how === 'hung up') this.#isHungUp = true
    this.#isCut = true
    this.#wake()
  }

  async *#news(): AsyncGenerator<RunnerNews> {
    for (;;) {
      const next = this.queued.shift()
      if (next) {
        yield next
        if (next.is === 'complete' || next.is === 'error') return
      } else if (this.#isCut) throw new Error('The connection was lost.')
      else
        await new Promise<void>((resolve) => {
          this.#wake = resolve
        })
    }
  }

  ref(detail?: DetailOf<typeof remoteAgentKind>): ReturnType<RemoteAgentKind['name']> {
    const intent: IntentOf<typeof remoteAgentKind> = {
      ...{ id: 'scope.3', scopeId: 'scope', incarnation: 'i', kind: 'remote-agent', spec, dependsOn: [], onLoss: 'end' },
      ...(detail !== undefined && { detail }),
    }
    return this.kind.name(intent)
  }

  ctx(): Ctx {
    return { signal: new AbortController().signal, clock: this.clock }
  }

  async launch(): Promise<{ readonly exit: TreeHandle['exit']; readonly ref: ReturnType<Scene['ref']> }> {
    const handles = new Handles()
    handles.add(logLabels[0], { path: '/log', archive: '/archive', done: () => {} })
    const ctx: CreateCtx<typeof remoteAgentKind> = {
      ...this.ctx(),
      record: async (detail) => void this.recorded.push(detail),
      handles,
      live: { order: { agentId: 'scope', type: 'command', prompt: '', configuration: {} } },
    }
    const { handle, detail } = await this.kind.create(this.ref(), spec, ctx)
    return { exit: handle.exit, ref: this.ref(detail) }
  }
}

const output = (text: string): RunnerNews => ({ is: 'output', bytes: Buffer.from(text) })
const gone = (exitCode: number | null = 0): RunnerStatus => ({ is: 'known', isAlive: false, exitCode, signal: null })
const alive: RunnerStatus = { is: 'known', isAlive: true, exitCode: null, signal: null }

describe('remote-agent kind', () => {
  it('G1: is recorded before the runner is called, and again when the runner has given it an id', async () => {
    const scene = new Scene()
    await scene.launch()
    expect(scene.recorded).toEqual([
      { url, runner: 'theirs' },
      { url, runner: 'theirs', agentId: 'theirs-1' },
    ])
  })

  it('is absent when no runner was called', async () => {
    const scene = new Scene()
    expect(await scene.kind.observe(scene.ref(), scene.ctx())).toMatchObject({ is: 'absent' })
    expect(scene.calls).toEqual([])
  })

  it('G4: is unknown while the runner does not answer', async () => {
    const scene = new Scene()
    scene.status = undefined
    const seen = await scene.kind.observe(scene.ref({ url, agentId: 'theirs-1' }), scene.ctx())
    expect(seen).toMatchObject({ is: 'unknown', reason: expect.stringContaining('does not answer') })
  })

  it('G10: is unknown when another installation answers, whatever it says', async () => {
    const scene = new Scene()
    const ref = scene.ref({ url, agentId: 'theirs-1', runner: 'theirs' })
    for (const other of ['another', undefined]) {
      scene.installation = other
      for (const status of [gone(), { is: 'not-found' } as const]) {
        scene.status = status
        expect(await scene.kind.observe(ref, scene.ctx())).toMatchObject({
          is: 'unknown',
          reason: expect.stringContaining('another runner'),
        })
      }
    }
  })

  it('whose launch may still arrive is absent only after the runner was called to stop it', async () => {
    const scene = new Scene()
    const ref = scene.ref({ url, runner: 'theirs' })
    expect(await scene.kind.observe(ref, scene.ctx())).toMatchObject({ is: 'present' })
    await scene.kind.release(ref, 'kill', scene.ctx())
    // The stop names the agent by Ebb's own id, because no other id is known.
    expect(scene.calls).toContain('stop scope by force')
    for (let attempt = 0; attempt < 2; attempt++) expect(await scene.kind.observe(ref, scene.ctx())).toMatchObject({ is: 'absent' })
  })

  it('G8: is gone only when its last lines are written', async () => {
    const scene = new Scene()
    const { ref, exit } = await scene.launch()
    scene.status = gone(3)
    scene.send(output('one\n'))
    expect(await scene.kind.observe(ref, scene.ctx())).toMatchObject({ is: 'present' })
    const going = scene.kind.gone(ref, scene.ctx()).then((proof) => ({ proof, written: [...scene.written] }))
    await new Promise((resolve) => setImmediate(resolve))
    scene.send(output('two\n'), { is: 'error', message: 'no' })
    expect(await scene.clock.run(going)).toMatchObject({ proof: { strength: 'api' }, written: ['one\n', 'two\n'] })
    expect(await scene.clock.run(exit)).toMatchObject({ code: 3, signal: null })
  })

  it('G8: waits while the disk is full, and loses nothing', async () => {
    const scene = new Scene()
    scene.appendFailures = 5
    const { exit } = await scene.launch()
    scene.status = gone()
    scene.send(output('one\n'), output('two\n'), { is: 'complete' })
    expect(await scene.clock.run(exit)).toEqual({ code: 0, signal: null })
    expect(scene.written).toEqual(['one\n', 'two\n'])
  })

  it('writes up to its limit and one byte more', async () => {
    const scene = new Scene()
    const { exit } = await scene.launch()
    scene.status = gone()
    scene.send(output('x'.repeat(800)), output('y'.repeat(800)), output('z'.repeat(800)))
    await scene.clock.run(exit)
    expect(scene.written.join('').length).toBe(1_001)
    expect(scene.isHungUp).toBe(true)
  })

  it('has not ended when its stream is lost: the runner is called as long as it takes', async () => {
    const scene = new Scene()
    const { exit } = await scene.launch()
    scene.status = undefined
    scene.cut()
    let hasEnded = false
    void exit.then(() => {
      hasEnded = true
    })
    await scene.clock.run(scene.clock.pause(3_600_000))
    expect(hasEnded).toBe(false)
    // The runner reports that the agent lives. Nobody reads its stream, so the agent is stopped.
    scene.status = alive
    await scene.clock.run(scene.clock.pause(10_000))
    expect(scene.calls).toContain('stop theirs-1')
    expect(hasEnded).toBe(false)
    scene.status = { is: 'not-found' }
    expect(await scene.clock.run(exit)).toEqual({ code: null, signal: null })
  })

  it('without events is checked: it goes on while it is alive, and has ended when it is gone', async () => {
    const scene = new Scene()
    const { exit } = await scene.launch()
    scene.status = alive
    await scene.clock.run(scene.clock.pause(60_000))
    expect(scene.calls.filter((call) => call.startsWith('status')).length).toBeGreaterThan(2)
    expect(scene.isHungUp).toBe(false)
    scene.status = gone(7)
    expect(await scene.clock.run(exit)).toEqual({ code: 7, signal: null })
    expect(scene.isHungUp).toBe(true)
  })

  it('writes nothing after it was seen gone, because its log may be archived', async () => {
    const scene = new Scene()
    const { ref } = await scene.launch()
    scene.status = gone()
    // The runner reports that the agent is gone, and the stream delivers nothing.
    const proof = await scene.clock.run(scene.kind.gone(ref, scene.ctx()))
    expect(proof.method).toContain('lines may be missing')
    expect(await scene.kind.observe(ref, scene.ctx())).toMatchObject({ is: 'absent' })
    scene.send(output('late\n'))
    await scene.clock.run(scene.clock.pause(10_000))
    expect(scene.written).toEqual([])
    expect(scene.isHungUp).toBe(true)
  })

  it('G4: is not ended by an observation while its stream delivers', async () => {
    const scene = new Scene()
    const { ref } = await scene.launch()
    // The agent lives, though the runner reports that it is gone or unknown.
    for (const status of [gone(null), { is: 'not-found' } as const]) {
      scene.status = status
      for (let attempt = 0; attempt < 10; attempt++) {
        const seen = scene.kind.observe(ref, scene.ctx())
        expect(await scene.clock.run(seen)).toMatchObject({ is: 'present' })
        scene.send({ is: 'ping' })
        await scene.clock.run(scene.clock.pause(5_000))
      }
    }
    expect(scene.isHungUp).toBe(false)
  })

  it('is awaited by its event while it is ended, and not polled too often', async () => {
    const scene = new Scene()
    const { ref } = await scene.launch()
    scene.status = alive
    // The stream is lost, and the runner needs time to end the agent.
    scene.cut()
    const going = scene.kind.gone(ref, scene.ctx())
    await scene.clock.run(scene.clock.pause(10_000))
    expect(scene.calls.filter((call) => call.startsWith('status')).length).toBeLessThan(60)
    scene.status = gone()
    expect(await scene.clock.run(going)).toMatchObject({ strength: 'api' })
  })

  it("at a runner that is not Ebb's, and gave no id, is absent by the runner protocol, and the proof says so", async () => {
    const scene = new Scene()
    scene.installation = undefined
    const ref = scene.ref({ url })
    await scene.kind.release(ref, 'terminate', scene.ctx())
    const seen = await scene.kind.observe(ref, scene.ctx())
    expect(seen).toMatchObject({ is: 'absent', proof: { method: expect.stringMatching(/connection is closed.*no agent with our id/) } })
    // A runner that is Ebb's, or has given the agent an id, would know the agent. Its 404 proves the absence.
    for (const detail of [
      { url, agentId: 'theirs-1' },
      { url, runner: 'theirs' },
    ]) {
      scene.installation = 'theirs'
      expect(await scene.kind.observe(scene.ref(detail), scene.ctx())).toMatchObject({
        proof: { method: `the runner at ${url} says that it has no such agent` },
      })
    }
  })

  it.each([
    ['exit code 0', gone(0), { code: 0, signal: null, error: { name: 'runner_error', message: 'no' } }],
    ['no exit code', gone(null), { code: null, signal: null, error: { name: 'runner_error', message: 'no' } }],
    ['nothing known of it', { is: 'not-found' } as const, { code: null, signal: null, error: { name: 'runner_error', message: 'no' } }],
    ['exit code 7', gone(7), { code: 7, signal: null, error: { name: 'exit_code', message: 'no' } }],
  ])("has failed with the runner's message when the stream says error, with %s", async (_what, status, end) => {
    const scene = new Scene()
    const { exit } = await scene.launch()
    scene.status = status
    scene.send({ is: 'error', message: 'no' })
    expect(await scene.clock.run(exit)).toEqual(end)
  })
})
