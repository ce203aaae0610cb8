import { sentence } from '../core/model/errors.ts'
import type { Supervisor } from '../supervisor.ts'

/**
 * For the ends that leave no time: an uncaught error, or a plain exit with agents still running. One synchronous write
 * ends every process; the books are for the sentinel, which was not told goodbye.
 */
export function armFailSafe(supervisor: Pick<Supervisor, 'killAllNow'>, exitCode: number): { disarm(): void } {
  const onExit = (): void => supervisor.killAllNow()
  const onError = (error: unknown): void => {
    process.stderr.write(
      `ebb: an error that nobody expected ended this run: ${error instanceof Error ? (error.stack ?? error.message) : sentence(error)}\n`,
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
