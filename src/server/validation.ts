import type { z } from 'zod'
import type { Problem } from '../core/model/errors.ts'

/** Validation by zod schemas, with messages that say what to write instead. */

/** The most problems that one error lists. */
const mostProblems = 20

interface Refusal {
  readonly problems: readonly Problem[]
  /** All problems in one text, for the message of an error. */
  readonly named: string
}

/** Returns the parsed value, or the problems. A message in a schema must begin with a verb, like the messages here. */
export function validate(schema: z.ZodType, value: unknown): { readonly value: unknown } | Refusal {
  const parsed = schema.safeParse(value ?? {}, { error: problemText })
  if (parsed.success) return { value: parsed.data }
  const found = parsed.error.issues.slice(0, mostProblems).map(({ path, message }) => ({ path: path.map(shownKey).join('.'), message }))
  return {
    problems: found.map(({ path, message }) => ({ path, message: `It ${message}.` })),
    named: `${found.map(({ path, message }) => `${path === '' ? 'it' : path} ${message}`).join('; ')}.`,
  }
}

/** Shortens a key that the caller sent, for a message. The value is cut off where the caller wrote `NAME=value` instead of a name. */
function shownKey(key: PropertyKey): string {
  return String(key).replace(/=.*$/s, '=…').slice(0, 100)
}

const typeWords: Readonly<Record<string, string>> = {
  string: 'text',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  array: 'a list',
  object: 'an object',
  record: 'an object',
  null: 'null',
}

function problemText(issue: z.core.$ZodRawIssue): string {
  switch (issue.code) {
    case 'invalid_type':
      return typeProblem(issue.expected, issue.input)
    case 'too_small':
      return Number(issue.minimum) === 1 && unitOf(issue.origin) !== '' ? 'must not be empty' : bound('least', issue.minimum, issue.origin)
    case 'too_big':
      return bound('most', issue.maximum, issue.origin)
    case 'invalid_format':
      return issue.format === 'uuid' ? 'must be a UUID' : `must have the format ${issue.format}`
    case 'invalid_value':
      return `must be one of ${issue.values.filter((value) => value !== '').join(', ')}`
    case 'invalid_key':
      return issue.issues[0]?.message ?? 'has a name that is not allowed'
    case 'invalid_union':
      return issue.errors[0]?.[0]?.message ?? 'matches none of the allowed forms'
    default:
      return 'is not valid'
  }
}

function typeProblem(expected: string, input: unknown): string {
  const wanted = typeWords[expected] ?? expected
  if (input === undefined) return `is missing, and must be ${wanted}`
  const given = input === null ? 'null' : Array.isArray(input) ? 'a list' : (typeWords[typeof input] ?? typeof input)
  // For a number such as 1.5 where a whole number is expected, "not a number" would be wrong.
  return typeof input === 'number' && expected === 'int' ? `must be ${wanted}` : `must be ${wanted}, not ${given}`
}

function bound(side: 'least' | 'most', value: number | bigint, origin: string): string {
  const unit = unitOf(origin)
  return unit === '' ? `must be at ${side} ${value}` : `must have at ${side} ${value} ${unit}`
}

function unitOf(origin: string): string {
  return { string: 'characters', array: 'entries' }[origin] ?? ''
}
