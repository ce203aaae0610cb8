import { expect, it, vi } from 'vitest'
import { leave, leaveSignals } from '../../../../src/cli/exit/leaving.ts'
import type { Control } from '../../../../src/control.ts'
import type { CloseRequest } from '../../../../src/core/model/close-request.ts'
import type { Report } from '../../../../src/core/model/report.ts'
import type { RunningServer } from '../../../../src/server/http/server.ts'
import type { Supervisor } from '../../../../src/supervisor.ts'
import { VirtualClock } from '../../../support/virtual-clock.ts'

/** Tests that a server exits within its eight seconds. The time is simulated, because real time would measure the machine. */

const promisedMs = 8_000
/** The part of the eight seconds that is reserved for the exit of the process on a busy machine. */
const exitMs = 500

const parts = ['close of everything', 'control plane', 'server', 'ledger'] as const

it.each(parts)('exit of a server: stays within its time when the %s hangs', async (hanging) => {
  const stderr = vi.spyOn(process.stderr, 'write').mockReturnValue(true)
  const clock = new VirtualClock()
  const ending = async (part: (typeof parts)[number]): Promise<void> => (part === hanging ? await new Promise<never>(() => {}) : undefined)
  const shutDown = async ({ deadlineMs = 0 }: CloseRequest): Promise<Report> => {
    await ending('close of everything')
    // The simulated close uses all of its time.
    await clock.pause(deadlineMs)
    return { success: true } as Report
  }
  // When the close hangs, processes may be left. When another part hangs, all processes are proven gone, and only the ledger may be behind.
  const isClosed = hanging !== 'close of everything'
  const killAllNow = vi.fn()
  const supervisor = {
    config: { keepOnExit: false },
    engine: { hostScopeId: 'host', shutDown },
    clock,
    log: { info: () => {} },
    close: () => ending('ledger'),
    killAllNow,
  } as unknown as Supervisor
  const control = { close: () => ending('control plane') } as unknown as Control
  const server = { close: () => ending('server') } as unknown as RunningServer
  const startedMs = clock.now()
  try {
    expect(await clock.run(leave(supervisor, control, server, leaveSignals(['SIGINT', 'SIGTERM', 'SIGHUP'])))).toBe(isClosed ? 0 : 3)
  } finally {
    stderr.mockRestore()
  }
  expect(clock.now() - startedMs).toBeLessThanOrEqual(promisedMs - exitMs)
  expect(killAllNow).toHaveBeenCalledTimes(isClosed ? 0 : 1)
})
