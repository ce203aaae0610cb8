/** All errors in one table: what code, which exit code, which HTTP status. The sentence is made where it is thrown. */
export const errorTable = {
  bad_usage: { exit: 2, status: 400 },
  unsupported_platform: { exit: 1, status: 500 },
  launch_refused: { exit: 125, status: 400 },
  program_not_found: { exit: 127, status: 400 },
  program_not_executable: { exit: 126, status: 400 },
  launch_failed: { exit: 125, status: 500 },
  limits_unavailable: { exit: 125, status: 400 },
  containment_unavailable: { exit: 125, status: 500 },
  scope_closed: { exit: 1, status: 409 },
  not_released: { exit: 3, status: 409 },
  home_unusable: { exit: 125, status: 500 },
  ledger_busy: { exit: 125, status: 503 },
  ledger_corrupt: { exit: 125, status: 500 },
  ledger_too_new: { exit: 125, status: 500 },
  ledger_unavailable: { exit: 125, status: 503 },
  server_running: { exit: 1, status: 409 },
  path_refused: { exit: 1, status: 400 },
} as const satisfies Record<string, { exit: number; status: number }>

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
