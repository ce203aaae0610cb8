import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { root } from '../support/home.ts'

/**
 * A function that another module assigns after the construction of an object is missing until then, and a second assignment replaces the
 * first without an error. So functions are given to a constructor, or added as listeners (docs/adr/0013-the-engines-api.md).
 */

const files = ['src', 'web/src'].flatMap((folder) =>
  (readdirSync(join(root, folder), { recursive: true }) as string[])
    .filter((name) => /\.tsx?$/.test(name))
    .map((name) => join(folder, name)),
)

function linesLike(pattern: RegExp): readonly string[] {
  return files.flatMap((file) =>
    readFileSync(join(root, file), 'utf8')
      .split('\n')
      .filter((line) => pattern.test(line))
      .map((line) => `${file}: ${line.trim()}`),
  )
}

it('classes and interfaces have no mutable field of a function type', () => {
  // The pattern skips lines that end with a comma or an opening bracket: those are properties of object literals, and parameters.
  expect(linesLike(/^ +[a-z]\w*\??: (\(.*\) => .*[^,{([]|\(\(.*\) => .*\) \| undefined)$/)).toEqual([])
})

it('no module assigns a function to a field of an object of another module', () => {
  // Assignments that an API of another program requires are allowed: transports of the MCP SDK, and V8's stack traces.
  const allowed = /\.(onerror|onmessage|onclose) = |Error\.prepareStackTrace = /
  expect(linesLike(/^ +(?!this\.)\w+(\.\w+)* *\.\w+ \??\??= (async )?(\(.*\)|\w+) =>/).filter((line) => !allowed.test(line))).toEqual([])
})
