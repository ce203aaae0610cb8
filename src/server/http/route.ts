import type { FastifyReply } from 'fastify'
import type { z } from 'zod'
import { EbbError } from '../../core/model/errors.ts'
import { validate } from '../validation.ts'

/** A route as data: its input, its answers and its handler. Validation and the OpenAPI document use the same schemas. */

export interface Call<P, Q, B> {
  readonly params: P
  readonly query: Q
  readonly body: B
  /** The namespace in the query, else in the header; undefined without either. */
  readonly namespace: string | undefined
  readonly reply: FastifyReply
}

interface Shape<P extends z.ZodType, Q extends z.ZodType, B extends z.ZodType> {
  readonly method: 'GET' | 'POST' | 'DELETE'
  /** The path of the route, in the notation of OpenAPI: `/agents/{id}`. */
  readonly path: string
  readonly summary: string
  readonly params?: P
  readonly query?: Q
  readonly body?: B
  /** The schema of the body by status; `null` for no body. */
  readonly answers: Readonly<Record<number, z.ZodType | null>>
  /** Headers that an answer may have, with their descriptions. */
  readonly headers?: Readonly<Record<string, string>>
  readonly bodyLimit?: number
  /** Answers the call. Sets the status itself where that is not the first one of `answers`. */
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

/** Returns the parsed value, or throws an error that names every invalid place. */
export function read(schema: z.ZodType | undefined, value: unknown, where: 'id' | 'query' | 'body' | 'header'): unknown {
  if (!schema) return undefined
  const validated = validate(schema, value)
  if ('value' in validated) return validated.value
  const { problems: details, named } = validated
  if (where === 'id') throw new EbbError('invalid_id', `The id in the address is malformed: ${named}`, { details })
  throw new EbbError('invalid_request', `The ${where} is invalid: ${named}`, { details })
}
