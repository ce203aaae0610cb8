import { z } from 'zod'
import type { Route } from './route.ts'
import { failure } from './schemas.ts'

/** The document that says what the routes take and answer, made from what they take and answer. */
export function openApi(routes: readonly Route[], version: string): unknown {
  const paths: Record<string, Record<string, unknown>> = {}
  for (const route of routes) {
    const path = `/api${route.path}`
    paths[path] ??= {}
    paths[path][route.method.toLowerCase()] = operation(route)
  }
  return {
    openapi: '3.1.0',
    info: { title: 'Ebb', version, description: 'Runs AI coding agents and proves that nothing they created outlives them.' },
    paths: { ...paths, ...beside },
    components: { securitySchemes: { token: { type: 'http', scheme: 'bearer' } } },
    security: [{}, { token: [] }],
  }
}

/** What is no route of the API's own: it has no input, and its answers are other people's formats. */
const beside = {
  '/api/openapi.json': { get: outside('This document', 'application/json', { type: 'object' }) },
  '/metrics': { get: outside('What Prometheus reads', 'text/plain', { type: 'string' }) },
}

function outside(summary: string, type: string, schema: object): unknown {
  return { summary, parameters: [], responses: { 200: { description: 'As asked', content: { [type]: { schema } } }, default: refusal() } }
}

function refusal(): unknown {
  return { description: 'The reason, in one sentence', content: content(failure, 'output') }
}

function operation({ summary, params, query, body, answers, headers }: Route): unknown {
  const head = headers && { headers: Object.fromEntries(Object.entries(headers).map(([name, description]) => [name, header(description)])) }
  return {
    summary,
    parameters: [...parameters(params, 'path'), ...parameters(query, 'query'), namespaceHeader],
    // Who sends none is understood as who sends nothing in it.
    ...(body && { requestBody: { required: !body.safeParse({}).success, content: content(body, 'input') } }),
    responses: {
      ...Object.fromEntries(
        Object.entries(answers).map(([status, schema]) => [
          status,
          schema ? { description: 'As asked', ...head, content: content(schema, 'output') } : { description: 'Done' },
        ]),
      ),
      default: refusal(),
    },
  }
}

function header(description: string): unknown {
  return { description, required: false, schema: { type: 'string' } }
}

const namespaceHeader = {
  name: 'X-Ebb-Namespace',
  in: 'header',
  required: false,
  description: 'The namespace of a call that names none',
  schema: { type: 'string' },
}

function content(schema: z.ZodType, io: 'input' | 'output'): unknown {
  return { 'application/json': { schema: jsonSchema(schema, io) } }
}

function jsonSchema(schema: z.ZodType, io: 'input' | 'output'): Record<string, unknown> {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, { io, unrepresentable: 'any' }) as Record<string, unknown>
  return rest
}

function parameters(schema: z.ZodType | undefined, place: 'path' | 'query'): readonly unknown[] {
  if (!schema) return []
  const { properties = {}, required = [] } = jsonSchema(schema, 'input') as {
    properties?: Record<string, unknown>
    required?: readonly string[]
  }
  return Object.entries(properties).map(([name, property]) => ({
    name,
    in: place,
    required: place === 'path' || required.includes(name),
    schema: property,
  }))
}
