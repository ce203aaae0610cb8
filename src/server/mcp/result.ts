import type { CallToolResult } from '@modelcontextprotocol/server'
import { EbbError, type ErrorCode } from '../../core/model/errors.ts'
import type { Report } from '../../core/model/report.ts'
import type { Log } from '../../core/ports/log.ts'

/** The result of a tool: structured, and the same as JSON text for clients that read only text. */
export function resultOf(answer: object): CallToolResult {
  const hasFailed = (answer as { readonly success?: unknown }).success === false
  return {
    content: [{ type: 'text', text: JSON.stringify(answer) }],
    structuredContent: answer as Record<string, unknown>,
    ...(hasFailed && { isError: true }),
  }
}

interface Failure {
  readonly success: false
  readonly error: string
  readonly code: ErrorCode
  readonly report?: Report
  readonly details?: readonly unknown[]
}

/** The answer of a tool that failed: a sentence that tells the model what to do. The details of an internal error go to the log. */
export function failureOf(error: unknown, tool: string, log: Log): Failure {
  if (!(error instanceof EbbError)) {
    log.error('An MCP tool failed with an internal error.', {
      tool,
      error: error instanceof Error ? (error.stack ?? error.message) : String(error),
    })
    return { success: false, error: 'Ebb failed with an internal error; its log has the cause.', code: 'internal' }
  }
  const report = reportOf(error)
  const { code, message, details } = error
  return {
    success: false,
    error: message,
    code,
    ...(report ? { report } : Array.isArray(details) && { details }),
  }
}

/** Error codes after which it is unknown how far a deployment came. */
const unclear: readonly ErrorCode[] = ['internal', 'ledger_busy', 'ledger_unavailable', 'ledger_read_only', 'ledger_corrupt']

/**
 * The answer of a failed deployment. `cleanup_performed` is true when the deployment was refused before anything was made, or its
 * rollback is proven.
 */
export function deployFailureOf(error: unknown, tool: string, log: Log): object {
  const failure = failureOf(error, tool, log)
  return { ...failure, cleanup_performed: failure.report?.success ?? !unclear.includes(failure.code) }
}

function reportOf({ details }: EbbError): Report | undefined {
  return details && 'resources' in details ? details : undefined
}
