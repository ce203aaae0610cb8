/** All errors in one table: what code, which exit code, which HTTP status. The sentence is made where it is thrown. */
export const errorTable = {
  bad_usage: { exit: 2, status: 400, when: 'a flag, a setting or an argument is unknown or has a bad value' },
  unsupported_platform: { exit: 1, status: 500, when: 'Ebb is started on Windows' },
  launch_refused: { exit: 125, status: 400, when: 'the launch cannot start: no command, no such working directory, no such provider' },
  program_not_found: { exit: 127, status: 400, when: 'the program does not exist' },
  program_not_executable: { exit: 126, status: 400, when: 'the program is there but cannot be executed' },
  launch_failed: { exit: 125, status: 500, when: 'something failed in the middle of a launch; it was rolled back' },
  limits_unavailable: { exit: 125, status: 400, when: 'a limit was asked for that the kernel does not offer here' },
  containment_unavailable: { exit: 125, status: 500, when: 'the containment that was asked for is not available' },
  scope_closed: { exit: 1, status: 409, when: 'something was launched into a scope that is closing or closed' },
  not_released: { exit: 3, status: 409, when: 'a scope was closed and not everything could be proven gone; the report is in the details' },
  home_unusable: { exit: 125, status: 500, when: 'the home cannot be made, read or written' },
  ledger_busy: { exit: 125, status: 503, when: 'another process holds the database locked' },
  ledger_corrupt: { exit: 125, status: 500, when: 'the database is not readable; it was kept aside' },
  ledger_too_new: { exit: 125, status: 500, when: 'the database was written by a newer Ebb' },
  ledger_unavailable: { exit: 125, status: 503, when: 'the database cannot be opened or written' },
  server_running: { exit: 1, status: 409, when: 'a server already runs on this home' },
  path_refused: { exit: 1, status: 400, when: 'a file or directory would lie outside its workspace, or something foreign is at its place' },
} as const satisfies Record<string, { exit: number; status: number; when: string }>

export type ErrorCode = keyof typeof errorTable

export class EbbError extends Error {
  override readonly name = 'EbbError'
  readonly code: ErrorCode
  readonly details: unknown

  constructor(code: ErrorCode, message: string, options: { cause?: unknown; details?: unknown } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.code = code
    this.details = options.details
  }
}

export function isEbbError(error: unknown, code?: ErrorCode): error is EbbError {
  return error instanceof EbbError && (code === undefined || error.code === code)
}

/** What a person should read of an error that may be anything. */
export function sentence(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

/** The errno name (`ENOENT`) of a system error. */
export function errno(error: unknown): string | undefined {
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  return typeof code === 'string' ? code : undefined
}
