import { expect, it, vi } from 'vitest'
import { type Leaving, leave } from '../../../src/cli/leaving.ts'
import type { Control } from '../../../src/control.ts'
import type { CloseRequest } from '../../../src/core/model/close-request.ts'
import type { Report } from '../../../src/core/model/report.ts'
import type { RunningServer } from '../../../src/server/http/server.ts'
import type { Supervisor } from '../../../src/supervisor.ts'
import { VirtualClock } from '../../support/virtual-clock.ts'

/** How much of its eight seconds a server takes to leave, on simulated time: a real one would measure the machine. */

const promisedMs = 8_000
/** For the exit itself, also on a busy machine. */
const exitMs = 500

const parts = ['close of everything', 'control plane', 'server', 'books'] as const

it.each(parts)('whoever leaves does so in time when the %s comes to no end', async (hanging) => {
  const said = vi.spyOn(process.stderr, 'write').mockReturnValue(true)
  const clock = new VirtualClock()
  const ending = async (part: (typeof parts)[number]): Promise<void> => (part === hanging ? await new Promise<never>(() => {}) : undefined)
  const shutDown = async ({ deadlineMs = 0 }: CloseRequest): Promise<Report> => {
    await ending('close of everything')
    // As late as it may be.
    await clock.pause(deadlineMs)
    return { success: true } as Report
  }
  // Then nobody knows what is left; else all is proven gone, and only the books are behind.
  const isClosed = hanging !== 'close of everything'
  const killAllNow = vi.fn()
  const supervisor = {
    config: { keepOnExit: false },
    engine: { hostScopeId: 'host', shutDown },
    clock,
    log: { info: () => {} },
    close: () => ending('books'),
    killAllNow,
  } as unknown as Supervisor
  const control = { close: () => ending('control plane') } as unknown as Control
  const server = { close: () => ending('server') } as unknown as RunningServer
  const askedMs = clock.now()
  try {
    expect(await clock.run(leave(supervisor, control, server, {} as Leaving))).toBe(isClosed ? 0 : 3)
  } finally {
    said.mockRestore()
  }
  expect(clock.now() - askedMs).toBeLessThanOrEqual(promisedMs - exitMs)
  expect(killAllNow).toHaveBeenCalledTimes(isClosed ? 0 : 1)
})
