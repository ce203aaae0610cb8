import { z } from 'zod'
import type { Route } from './route.ts'
import { failure } from './schemas.ts'

/** The OpenAPI document, made from the schemas that validate the requests. */
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
    paths: { ...paths, ...otherPaths },
    components: { securitySchemes: { token: { type: 'http', scheme: 'bearer' } } },
    security: [{}, { token: [] }],
  }
}

/** Routes that are not in the route table. They have no input, and Ebb does not define the formats of their answers. */
const otherPaths = {
  '/api/openapi.json': { get: otherRoute('This document', 'application/json', { type: 'object' }) },
  '/metrics': { get: otherRoute('Metrics in the text format of Prometheus', 'text/plain', { type: 'string' }) },
}

function otherRoute(summary: string, type: string, schema: object): unknown {
  return { summary, parameters: [], responses: { 200: { description: 'Success', content: { [type]: { schema } } }, default: refusal() } }
}

function refusal(): unknown {
  return { description: 'An error: its code, and a sentence that says what to do', content: content(failure, 'output') }
}

function operation({ summary, params, query, body, answers, headers }: Route): unknown {
  const head = headers && { headers: Object.fromEntries(Object.entries(headers).map(([name, description]) => [name, header(description)])) }
  return {
    summary,
    parameters: [...parameters(params, 'path'), ...parameters(query, 'query'), namespaceHeader],
    // A missing body is read as `{}`, so the body is required only when the schema refuses `{}`.
    ...(body && { requestBody: { required: !body.safeParse({}).success, content: content(body, 'input') } }),
    responses: {
      ...Object.fromEntries(
        Object.entries(answers).map(([status, schema]) => [
          status,
          schema ? { description: 'Success', ...head, content: content(schema, 'output') } : { description: 'Success, without a body' },
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
  description: 'The namespace, unless the query or the body names one',
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
