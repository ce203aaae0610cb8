import type { Control } from '../control.ts'
import { noop, within } from '../core/engine/race.ts'
import type { CloseRequest } from '../core/model/close-request.ts'
import type { Report } from '../core/model/report.ts'
import type { RunningServer } from '../server/http/server.ts'
import type { Supervisor } from '../supervisor.ts'
import { during } from './terminal/status-line.ts'

/** How those leave who serve others: once asked, everything is closed, proven, in a time that is known before. */

/** From the signal to the exit are eight seconds, of which the exit itself takes a little. */
const exitBudgetMs = 7_200

/** The books and the goodbye need the rest. */
const closeBudgetMs = 6_200

export interface Leaving {
  readonly asked: Promise<void>
  /** Whoever holds the other end lives as long as it is open, also when it is killed. */
  leaveWithStdin(): void
  /** Asks, unless somebody has; it never forces. */
  ask(): void
  onAgain: () => void
}

/** A signal asks; one that comes when somebody has asked already forces. What was ignored when we were started does neither. */
export function leaveSignals(ignored: readonly NodeJS.Signals[]): Leaving {
  const asked = Promise.withResolvers<void>()
  let isAsked = false
  const leaving: Leaving = {
    asked: asked.promise,
    leaveWithStdin: () => {
      // It read our output too: that it is gone is no reason to leave otherwise than in order.
      process.stdout.on('error', () => {})
      for (const end of ['end', 'error', 'close']) process.stdin.on(end, () => asked.resolve())
      process.stdin.resume()
    },
    ask: () => {
      isAsked = true
      asked.resolve()
    },
    onAgain: () => {},
  }
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
    if (!ignored.includes(signal)) process.on(signal, () => (isAsked ? leaving.onAgain() : leaving.ask()))
  return leaving
}

/** Everything is closed, proven; then nobody is listened to any more. What does not come to its end in time is left to the sentinel. */
export async function leave(
  supervisor: Supervisor,
  control: Control,
  server: RunningServer,
  leaving: Leaving,
  isQuiet = true,
): Promise<number> {
  const { engine, clock, log } = supervisor
  const keeps = supervisor.config.keepOnExit
  leaving.onAgain = () => {
    const closeRequest: CloseRequest = { trigger: 'process-exit', force: true }
    void (keeps ? engine.leave(closeRequest) : engine.close(engine.hostScopeId, closeRequest)).catch(noop)
  }
  let report: Report | undefined
  const leaveInOrder = async (): Promise<void> => {
    const closeRequest: CloseRequest = { trigger: 'process-exit', deadlineMs: closeBudgetMs }
    report = await (keeps ? engine.leave(closeRequest) : engine.shutDown(closeRequest))
    if (!report.success) complain(report.errors)
    await control.close()
    await server.close()
    log.info('Ebb has left.', { scope: engine.hostScopeId, trigger: 'process-exit' })
    await supervisor.close()
  }
  await during(clock, isQuiet, 'closing everything; Ctrl-C again forces it', () => within(clock, exitBudgetMs, leaveInOrder()))
  if (report) return report.success ? 0 : 3
  supervisor.killAllNow()
  complain(['What was closed could not be looked at and written down in time; the sentinel carries on.'])
  return 3
}

function complain(errors: readonly string[]): void {
  process.stderr.write(
    `ebb: not everything could be released; "ebb status" shows it until it is gone:\n${errors.map((error) => `  ${error}\n`).join('')}`,
  )
}
