import type { FastifyReply } from 'fastify'
import type { z } from 'zod'
import { EbbError } from '../../domain/errors.ts'

/** A route as data: what it takes, what it answers, what it does. Validation and documentation come from the same. */

export interface Call<P, Q, B> {
  readonly params: P
  readonly query: Q
  readonly body: B
  /** What the call itself says, else its header; undefined when nobody said any. */
  readonly namespace: string | undefined
  readonly reply: FastifyReply
}

interface Shape<P extends z.ZodType, Q extends z.ZodType, B extends z.ZodType> {
  readonly method: 'GET' | 'POST' | 'DELETE'
  /** As in OpenAPI: `/agents/{id}`. */
  readonly path: string
  readonly summary: string
  readonly params?: P
  readonly query?: Q
  readonly body?: B
  /** By status; `null` has no body. */
  readonly answers: Readonly<Record<number, z.ZodType | null>>
  readonly bodyLimit?: number
  /** Sets the status itself where it is not the first of the answers. */
  readonly handle: (call: Call<z.output<P>, z.output<Q>, z.output<B>>) => Promise<unknown>
}

export interface Route {
  readonly method: 'GET' | 'POST' | 'DELETE'
  readonly path: string
  readonly summary: string
  readonly params?: z.ZodType
  readonly query?: z.ZodType
  readonly body?: z.ZodType
  readonly answers: Readonly<Record<number, z.ZodType | null>>
  readonly bodyLimit?: number
  readonly handle: (call: Call<unknown, unknown, unknown>) => Promise<unknown>
}

export function route<P extends z.ZodType, Q extends z.ZodType, B extends z.ZodType>(shape: Shape<P, Q, B>): Route {
  return shape as unknown as Route
}

export interface Problem {
  readonly path: string
  readonly message: string
}

/** So many are told: of 10,000 bad events nobody reads more. */
const mostProblems = 20

/** The value as the schema understands it; every place that is wrong is named. */
export function read(schema: z.ZodType | undefined, value: unknown, where: 'id' | 'query' | 'body' | 'header'): unknown {
  if (!schema) return undefined
  const parsed = schema.safeParse(value ?? {})
  if (parsed.success) return parsed.data
  const problems: readonly Problem[] = parsed.error.issues
    .slice(0, mostProblems)
    .map(({ path, message }) => ({ path: path.map(shown).join('.'), message }))
  const named = problems.map(({ path, message }) => (path === '' ? message : `${path}: ${message}`)).join('; ')
  if (where === 'id') throw new EbbError('invalid_id', `The id in the address is malformed; ${named}.`, { details: problems })
  throw new EbbError('invalid_request', `The ${where} is not as it should be; ${named}.`, { details: problems })
}

/** A key is the caller's text too: who wrote `NAME=value` where a name belongs gets no value back. */
function shown(key: PropertyKey): string {
  return String(key).replace(/=.*$/s, '=…').slice(0, 100)
}
