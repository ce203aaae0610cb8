import { sentence } from '../../core/model/errors.ts'
import type { Supervisor } from '../../supervisor.ts'

/**
 * Ends every process with one synchronous write when Ebb has no time to close: at an uncaught error, or at an exit with agents
 * still running. The sentinel was not dismissed, so it corrects the ledger afterwards (G12).
 */
export function armFailSafe(supervisor: Pick<Supervisor, 'killAllNow'>, exitCode: number): { disarm(): void } {
  const onExit = (): void => supervisor.killAllNow()
  const onError = (error: unknown): void => {
    process.stderr.write(
      `ebb: an unexpected error ended this run: ${error instanceof Error ? (error.stack ?? error.message) : sentence(error)}\n`,
    )
    process.exit(exitCode)
  }
  process.on('exit', onExit)
  process.on('uncaughtException', onError)
  process.on('unhandledRejection', onError)
  return {
    disarm: () => {
      process.off('exit', onExit)
      process.off('uncaughtException', onError)
      process.off('unhandledRejection', onError)
    },
  }
}
