/** Fields of lines that somebody else wrote: every one may be missing or of another type than it should be. */

export type Json = Readonly<Record<string, unknown>>

/** `JSON.stringify` recurses and fails at some thousand levels; a shorter line cannot be nested that deeply. */
const alwaysShallowLength = 4_096

/** An object that can be written again, as whoever stores it will; anything else is undefined. */
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

/** Something to read, whatever it is. */
export function readable(value: unknown): string {
  return typeof value === 'string' ? value : value === undefined || value === null ? '' : JSON.stringify(value)
}

/** The text of a result that is a string, a list of blocks with texts in it, or something else. */
export function blocksText(value: unknown): string {
  if (!Array.isArray(value)) return readable(value)
  return value.map((block) => text(object(block).text) ?? readable(block)).join('\n')
}
