import type { Control } from '../../control.ts'
import { noop, within } from '../../core/engine/race.ts'
import type { CloseRequest } from '../../core/model/close-request.ts'
import type { Report } from '../../core/model/report.ts'
import type { RunningServer } from '../../server/http/server.ts'
import type { Supervisor } from '../../supervisor.ts'
import { withStatusLine } from '../terminal/status-line.ts'

/** The exit of `serve` and `mcp`: on request, everything is closed and proven gone within a fixed time. */

/**
 * The time for an exit in order. Eight seconds from the signal to the exit are promised, and the difference is for the exit of the
 * process itself.
 */
const exitBudgetMs = 7_200

/** The time for the close. The rest of the budget is for the ledger and the dismissal of the sentinel. */
const closeBudgetMs = 6_200

export interface Leaving {
  readonly requested: Promise<void>
  /** Requests the exit when standard input ends, which also happens when the parent program is killed. */
  leaveWithStdin(): void
  /** Requests the exit. A repeated request does not force it. */
  request(): void
  /** Adds a listener for each signal that arrives after the exit was requested. */
  onRepeat(listener: () => void): Disposable
}

/** The first signal requests the exit, and a further one forces it. Signals that were ignored at the start stay ignored. */
export function leaveSignals(ignored: readonly NodeJS.Signals[]): Leaving {
  const requested = Promise.withResolvers<void>()
  const repeatListeners = new Set<() => void>()
  let isRequested = false
  const leaving: Leaving = {
    requested: requested.promise,
    leaveWithStdin: () => {
      // The parent program also read the output. The error of the broken pipe must not prevent an orderly exit.
      process.stdout.on('error', () => {})
      for (const end of ['end', 'error', 'close']) process.stdin.on(end, () => requested.resolve())
      process.stdin.resume()
    },
    request: () => {
      isRequested = true
      requested.resolve()
    },
    onRepeat: (listener) => {
      repeatListeners.add(listener)
      return { [Symbol.dispose]: () => void repeatListeners.delete(listener) }
    },
  }
  const onSignal = (): void => {
    if (isRequested) for (const listener of repeatListeners) listener()
    else leaving.request()
  }
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) if (!ignored.includes(signal)) process.on(signal, onSignal)
  return leaving
}

/** Closes everything, then stops listening. The sentinel continues what is not finished in time. Returns the exit code. */
export async function leave(
  supervisor: Supervisor,
  control: Control,
  server: RunningServer,
  leaving: Leaving,
  isQuiet = true,
): Promise<number> {
  const { engine, clock, log } = supervisor
  const keeps = supervisor.config.keepOnExit
  using _ = leaving.onRepeat(() => {
    const closeRequest: CloseRequest = { trigger: 'process-exit', force: true }
    // The error of this call is ignored, because the call only adds force to the running close, which reports its own failure.
    void (keeps ? engine.leave(closeRequest) : engine.close(engine.hostScopeId, closeRequest)).catch(noop)
  })
  let report: Report | undefined
  const leaveInOrder = async (): Promise<void> => {
    const closeRequest: CloseRequest = { trigger: 'process-exit', deadlineMs: closeBudgetMs }
    report = await (keeps ? engine.leave(closeRequest) : engine.shutDown(closeRequest))
    if (!report.success) writeFailures(report.errors)
    await control.close()
    await server.close()
    log.info('Ebb has shut down.', { scope: engine.hostScopeId, trigger: 'process-exit' })
    await supervisor.close()
  }
  await withStatusLine(clock, isQuiet, 'closing everything; Ctrl-C again forces it', () => within(clock, exitBudgetMs, leaveInOrder()))
  if (report) return report.success ? 0 : 3
  supervisor.killAllNow()
  writeFailures(['The close could not be verified and recorded in time; the sentinel continues it.'])
  return 3
}

function writeFailures(errors: readonly string[]): void {
  process.stderr.write(
    `ebb: not everything could be released; "ebb status" shows it until it is gone:\n${errors.map((error) => `  ${error}\n`).join('')}`,
  )
}
