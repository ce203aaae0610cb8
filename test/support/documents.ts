import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { root } from './home.ts'

/** The examples in our documents, as somebody would copy them out. */

export interface Example {
  /** Its first line says so, as in `// agents.test.ts`; one that does not is a program. */
  readonly name: string
  readonly body: string
  /** Configurations that the document has shown before it. */
  readonly given: readonly Example[]
}

/** Its examples need a real agent on the PATH: they run with those of the agents' suite. */
export const realAgents = join('docs', 'in-depth', 'real-agents.md')

export const blocks = (file: string, language: string): string[] =>
  [...readFileSync(join(root, file), 'utf8').matchAll(new RegExp(`\`\`\`${language}\\n([\\s\\S]*?)\`\`\``, 'g'))].map(
    ([, body = '']) => body,
  )

export function examplesOf(file: string): readonly Example[] {
  const given: Example[] = []
  return blocks(file, 'ts').map((body, index) => {
    const name = /^\/\/ (\S+\.ts)\n/.exec(body)?.[1] ?? `example-${index + 1}.ts`
    const example = { name, body, given: [...given] }
    if (name.endsWith('.config.ts')) given.push(example)
    return example
  })
}

export const testsIn = (body: string): number => body.match(/^ *(it|test)\(/gm)?.length ?? 0
