export type LogLevel = 'debug' | 'info' | 'warn' | 'error' | 'silent'

/** Structured log. Lines of a close begin with `Cleanup:`. Never pass environments, arguments or tokens. */
export interface Log {
  debug(message: string, fields?: Readonly<Record<string, unknown>>): void
  info(message: string, fields?: Readonly<Record<string, unknown>>): void
  warn(message: string, fields?: Readonly<Record<string, unknown>>): void
  error(message: string, fields?: Readonly<Record<string, unknown>>): void
}

const levels: readonly LogLevel[] = ['debug', 'info', 'warn', 'error', 'silent']

/** Writes one line per message. Fields are `key=value`, so that a line can be searched with grep. */
export function lineLog(level: LogLevel, write: (line: string) => void): Log {
  const least = levels.indexOf(level)
  const say =
    (at: LogLevel) =>
    (message: string, fields: Readonly<Record<string, unknown>> = {}): void => {
      if (levels.indexOf(at) < least) return
      const rest = Object.entries(fields).map(([key, value]) => ` ${key}=${typeof value === 'string' ? value : JSON.stringify(value)}`)
      write(`ebb ${at}: ${message}${rest.join('')}\n`)
    }
  return { debug: say('debug'), info: say('info'), warn: say('warn'), error: say('error') }
}
