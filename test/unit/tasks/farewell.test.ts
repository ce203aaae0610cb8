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

describe('agent that has sent its last report', () => {
  it('is ended at the deadline of its first last report, with the status of the latest one', async () => {
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

  it('is ended before the deadline when its process exits', async () => {
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

describe('final status after a last report', () => {
  const exit = (code: number) => ({ code, signal: null })
  const reported = (status: 'completed' | 'failed' | 'terminated') => ({ farewell: { status, message: 'why' } })

  it.each([
    ['completed, as reported', reported('completed'), 'completed', undefined],
    ['failed with the reported reason', reported('failed'), 'failed', 'why'],
    ['terminated, as reported', reported('terminated'), 'terminated', undefined],
    [
      'failed, as reported, although the program reports success',
      { ...reported('failed'), result: { isSuccess: true }, exit: exit(0) },
      'failed',
      'why',
    ],
    [
      'failed when the program reports a failure after a report of completed',
      { ...reported('completed'), result: { isSuccess: false } },
      'failed',
      'The agent reported that it failed.',
    ],
    [
      'failed when the program exits with an error code after a report of completed',
      { ...reported('completed'), exit: exit(3) },
      'failed',
      'The agent exited with code 3.',
    ],
    [
      'completed when Ebb ended the program after the report',
      { ...reported('completed'), exit: { code: null, signal: 'SIGTERM' } },
      'completed',
      undefined,
    ],
    [
      'terminated, as reported, when only the row is left',
      { result: { isSuccess: false, farewell: { ...reported('terminated').farewell, by: '' } } },
      'terminated',
      undefined,
    ],
    ['terminated when Ebb stopped the agent after the report', { ...reported('completed'), wasStopped: true }, 'terminated', undefined],
    [
      'failed when the agent broke a rule after the report',
      { ...reported('completed'), violation: { name: 'timeout', message: 'late' } },
      'failed',
      'late',
    ],
  ])('%s', (_, days, status, message) => {
    const ending = endingOf({ wasStopped: false, ...days })
    expect(ending.status).toBe(status)
    expect(ending.error?.message).toBe(message)
  })
})
