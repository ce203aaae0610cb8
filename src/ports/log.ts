export type LogLevel = 'debug' | 'info' | 'warn' | 'error' | 'silent'

/** Structured log lines; the lines of a close begin with `Cleanup:`. Never given environments, argv or tokens. */
export interface Log {
  debug(message: string, fields?: Readonly<Record<string, unknown>>): void
  info(message: string, fields?: Readonly<Record<string, unknown>>): void
  warn(message: string, fields?: Readonly<Record<string, unknown>>): void
  error(message: string, fields?: Readonly<Record<string, unknown>>): void
}
