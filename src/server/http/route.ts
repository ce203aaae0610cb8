import type { FastifyReply } from 'fastify'
import type { z } from 'zod'
import { EbbError } from '../../core/model/errors.ts'
import { understand } from '../validation.ts'

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
  /** That an answer may have, and what they say. */
  readonly headers?: Readonly<Record<string, string>>
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
  readonly headers?: Readonly<Record<string, string>>
  readonly bodyLimit?: number
  readonly handle: (call: Call<unknown, unknown, unknown>) => Promise<unknown>
}

export function route<P extends z.ZodType, Q extends z.ZodType, B extends z.ZodType>(shape: Shape<P, Q, B>): Route {
  return shape as unknown as Route
}

/** The value as the schema understands it; every place that is wrong is named. */
export function read(schema: z.ZodType | undefined, value: unknown, where: 'id' | 'query' | 'body' | 'header'): unknown {
  if (!schema) return undefined
  const understood = understand(schema, value)
  if ('value' in understood) return understood.value
  const { problems: details, named } = understood
  if (where === 'id') throw new EbbError('invalid_id', `The id in the address is malformed: ${named}`, { details })
  throw new EbbError('invalid_request', `The ${where} is not as it should be: ${named}`, { details })
}
