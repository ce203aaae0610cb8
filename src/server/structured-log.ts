import { destination, type Logger, pino } from 'pino'
import type { Log, LogLevel } from '../core/ports/log.ts'

/** The server's log: one JSON object per line, with scope and trigger as fields. */
export function structuredLog(level: LogLevel): { readonly log: Log; readonly logger: Logger } {
  // The log is written synchronously, so that the last lines before the process ends are written.
  const logger = pino({ level, base: { pid: process.pid } }, destination({ dest: 2, sync: true }))
  const log: Log = {
    debug: (message, fields) => logger.debug(fields ?? {}, message),
    info: (message, fields) => logger.info(fields ?? {}, message),
    warn: (message, fields) => logger.warn(fields ?? {}, message),
    error: (message, fields) => logger.error(fields ?? {}, message),
  }
  return { log, logger }
}
