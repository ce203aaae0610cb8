import type { z } from 'zod'

/** What does not fit its schema, told so that whoever wrote it knows what to write instead. */

interface Problem {
  readonly path: string
  /** A sentence. What was written is not repeated in it: it may be a secret. */
  readonly message: string
}

/** So many are told: of 10,000 bad events nobody reads more. */
const mostProblems = 20

interface Refusal {
  readonly problems: readonly Problem[]
  /** All of them, after a colon. */
  readonly named: string
}

/** The value as the schema understands it, or every place that is wrong. What a schema says of itself begins with a verb, as ours do. */
export function understand(schema: z.ZodType, value: unknown): { readonly value: unknown } | Refusal {
  const parsed = schema.safeParse(value ?? {}, { error: wordsOf })
  if (parsed.success) return { value: parsed.data }
  const found = parsed.error.issues.slice(0, mostProblems).map(({ path, message }) => ({ path: path.map(shown).join('.'), message }))
  return {
    problems: found.map(({ path, message }) => ({ path, message: `It ${message}.` })),
    named: `${found.map(({ path, message }) => `${path === '' ? 'it' : path} ${message}`).join('; ')}.`,
  }
}

/** A key is the caller's text too: who wrote `NAME=value` where a name belongs gets no value back. */
function shown(key: PropertyKey): string {
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

function wordsOf(issue: z.core.$ZodRawIssue): string {
  switch (issue.code) {
    case 'invalid_type':
      return typeProblem(issue.expected, issue.input)
    case 'too_small':
      return Number(issue.minimum) === 1 && unitOf(issue.origin) !== '' ? 'must not be empty' : bound('least', issue.minimum, issue.origin)
    case 'too_big':
      return bound('most', issue.maximum, issue.origin)
    case 'invalid_format':
      return issue.format === 'uuid' ? 'must be a UUID' : `must be of the format ${issue.format}`
    case 'invalid_value':
      return `must be one of ${issue.values.filter((one) => one !== '').join(', ')}`
    case 'invalid_key':
      return issue.issues[0]?.message ?? 'has a name that is not allowed'
    case 'invalid_union':
      return issue.errors[0]?.[0]?.message ?? 'fits none of the forms that it may have'
    default:
      return 'is not as it should be'
  }
}

function typeProblem(expected: string, input: unknown): string {
  const wanted = typeWords[expected] ?? expected
  if (input === undefined) return `is missing, and must be ${wanted}`
  const given = input === null ? 'null' : Array.isArray(input) ? 'a list' : (typeWords[typeof input] ?? typeof input)
  // A number that is not whole is a number.
  return typeof input === 'number' && expected === 'int' ? `must be ${wanted}` : `must be ${wanted}, not ${given}`
}

function bound(side: 'least' | 'most', value: number | bigint, origin: string): string {
  const unit = unitOf(origin)
  return unit === '' ? `must be at ${side} ${value}` : `must have at ${side} ${value} ${unit}`
}

function unitOf(origin: string): string {
  return { string: 'characters', array: 'entries' }[origin] ?? ''
}
