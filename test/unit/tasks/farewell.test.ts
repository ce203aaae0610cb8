import { describe, expect, it } from 'vitest'
import { Run } from '../../../src/agents/run.ts'
import { endingOf } from '../../../src/core/model/agent.ts'
import type { CloseRequest } from '../../../src/core/model/close-request.ts'
import type { AgentChange } from '../../../src/core/ports/agents.ts'
import { VirtualClock } from '../../support/virtual-clock.ts'

function startRun(clock: VirtualClock) {
  const closes: { readonly closeRequest: CloseRequest; readonly atMs: number }[] = []
  const changes: AgentChange[] = []
  const run = new Run('a', 'n', new AbortController().signal, {
    clock,
    change: async (change) => void changes.push(change),
    onStatus: () => {},
    onEnd: () => {},
    close: (closeRequest) => closes.push({ closeRequest, atMs: clock.now() }),
  })
  return { run, closes, changes }
}

describe('an agent that has said its farewell', () => {
  it('is ended when its patience is over, by the first of them, and as what it said last', async () => {
    const clock = new VirtualClock()
    const { run, closes, changes } = startRun(clock)
    const begin = clock.now()
    const by = run.farewell({ status: 'completed', message: 'all done' }, 30_000)
    await clock.run(clock.pause(20_000))
    expect(run.farewell({ status: 'failed', message: 'not quite' }, 30_000)).toBe(by)
    expect(closes).toEqual([])
    await clock.run(clock.pause(60_000))
    expect(closes).toEqual([{ closeRequest: { trigger: 'completed' }, atMs: begin + 30_000 }])
    expect(changes.slice(0, 2)).toEqual([
      { result: { isSuccess: true, farewell: { status: 'completed', message: 'all done', by } } },
      {
        result: {
          isSuccess: false,
          error: { name: 'agent_failed', message: 'not quite' },
          farewell: { status: 'failed', message: 'not quite', by },
        },
      },
    ])
    const days = await clock.run(run.lastDays())
    expect(days).toMatchObject({ wasStopped: false, farewell: { status: 'failed' } })
  })

  it('is ended earlier when its process has ended', async () => {
    const clock = new VirtualClock()
    const { run, closes } = startRun(clock)
    run.farewell({ status: 'completed', message: '' }, 30_000)
    run.watchExit(1, Promise.resolve({ code: 0, signal: null }))
    await clock.run(clock.pause(1))
    expect(closes).toHaveLength(1)
    await clock.run(clock.pause(60_000))
    expect(closes).toHaveLength(1)
  })
})

describe('how it ended', () => {
  const exit = (code: number) => ({ code, signal: null })
  const said = (status: 'completed' | 'failed' | 'terminated') => ({ farewell: { status, message: 'why' } })

  it.each([
    ['as it said', said('completed'), 'completed', undefined],
    ['as it said, with its reason', said('failed'), 'failed', 'why'],
    ['as it said', said('terminated'), 'terminated', undefined],
    ['badly, whatever its program thinks', { ...said('failed'), result: { isSuccess: true }, exit: exit(0) }, 'failed', 'why'],
    [
      'badly, when its program says so',
      { ...said('completed'), result: { isSuccess: false } },
      'failed',
      'The agent reported that it failed.',
    ],
    ['badly, when its program died of something', { ...said('completed'), exit: exit(3) }, 'failed', 'The agent exited with code 3.'],
    [
      'well, when we ended its program afterwards',
      { ...said('completed'), exit: { code: null, signal: 'SIGTERM' } },
      'completed',
      undefined,
    ],
    [
      'as it said, when only its row is left',
      { result: { isSuccess: false, farewell: { ...said('terminated').farewell, by: '' } } },
      'terminated',
      undefined,
    ],
    ['by us, when we stopped it', { ...said('completed'), wasStopped: true }, 'terminated', undefined],
    ['by a rule', { ...said('completed'), violation: { name: 'timeout', message: 'late' } }, 'failed', 'late'],
  ])('%s', (_, days, status, message) => {
    const ending = endingOf({ wasStopped: false, ...days })
    expect(ending.status).toBe(status)
    expect(ending.error?.message).toBe(message)
  })
})
