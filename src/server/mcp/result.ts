import type { CallToolResult } from '@modelcontextprotocol/server'
import { z } from 'zod'
import { EbbError, type ErrorCode } from '../../core/model/errors.ts'
import type { Report } from '../../core/model/report.ts'
import type { Log } from '../../core/ports/log.ts'

/**
 * The schema of a tool's result. It is loose, so that a client accepts fields that a later server adds. All fields but `success` are
 * optional: a failed answer has only `success`, `error` and `code`. Some clients check it against the same schema, and hide an answer
 * that does not fit from the model.
 */
export function resultSchema<Fields extends z.ZodRawShape>(fields: Fields) {
  const failure = { error: z.string().optional(), code: z.string().optional() }
  return z.looseObject({ ...z.object(fields).partial().shape, ...failure, success: z.boolean() })
}

export const reportSchema = z
  .looseObject({ success: z.boolean(), trigger: z.string(), errors: z.array(z.string()) })
  .describe('What the close did, resource by resource, with proof.')

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

function reportOf({ details }: EbbError): Report | undefined {
  return details && 'resources' in details ? details : undefined
}
