import type { CallToolResult } from '@modelcontextprotocol/server'
import { EbbError, type ErrorCode } from '../../core/model/errors.ts'
import type { Report } from '../../core/model/report.ts'
import type { Log } from '../../core/ports/log.ts'

/** What a tool answers: structured, and the same as text for clients that read only that. */
export function resultOf(answer: object): CallToolResult {
  const hasFailed = (answer as { readonly success?: unknown }).success === false
  return {
    content: [{ type: 'text', text: JSON.stringify(answer) }],
    structuredContent: answer as Record<string, unknown>,
    ...(hasFailed && { isError: true }),
  }
}

/** A failure is an answer too: the model reads what to do about it. Of what nobody foresaw only the log says more. */
export function failureOf(error: unknown, tool: string, log: Log): Readonly<Record<string, unknown>> {
  if (!(error instanceof EbbError)) {
    log.error('A tool failed.', { tool, error: error instanceof Error ? (error.stack ?? error.message) : String(error) })
    return { success: false, error: 'Something went wrong in Ebb; its log says what.', code: 'internal' satisfies ErrorCode }
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

/** With these nobody can say how far it came. */
const unclear: readonly string[] = [
  'internal',
  'ledger_busy',
  'ledger_unavailable',
  'ledger_read_only',
  'ledger_corrupt',
] satisfies ErrorCode[]

/** A refusal made nothing, and a launch that failed has closed what it made: true only when that is proven. */
export function deployFailureOf(error: unknown, tool: string, log: Log): object {
  const failure = failureOf(error, tool, log)
  const report = failure.report as Report | undefined
  return { ...failure, cleanup_performed: report?.success ?? !unclear.includes(String(failure.code)) }
}

function reportOf({ details }: EbbError): Report | undefined {
  const isReport = typeof details === 'object' && details !== null && 'success' in details && 'resources' in details
  return isReport ? (details as Report) : undefined
}
