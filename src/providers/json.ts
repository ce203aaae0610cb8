/** Reads fields of JSON that other programs wrote: any field may be missing or have an unexpected type. */

export type Json = Readonly<Record<string, unknown>>

/** A line up to this length cannot be nested too deeply for `JSON.stringify`, which recurses and fails at some thousand levels. */
const alwaysShallowLength = 4_096

/** Parses an object that `JSON.stringify` can also write, because it is stored as JSON. Anything else is undefined. */
export function parseObject(line: string): Json | undefined {
  if (!line.trimStart().startsWith('{')) return undefined
  try {
    const value: unknown = JSON.parse(line)
    if (line.length > alwaysShallowLength) JSON.stringify(value)
    return isObject(value) ? value : undefined
  } catch {
    return undefined
  }
}

function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

export function object(value: unknown): Json {
  return isObject(value) ? value : {}
}

export function list(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}

export function text(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined
}

/** A value as text for people. */
export function readable(value: unknown): string {
  return typeof value === 'string' ? value : value === undefined || value === null ? '' : JSON.stringify(value)
}

/** The text of a tool result: a string, a list of blocks with texts, or any other JSON. */
export function blocksText(value: unknown): string {
  if (!Array.isArray(value)) return readable(value)
  return value.map((block) => text(object(block).text) ?? readable(block)).join('\n')
}
