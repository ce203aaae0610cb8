import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { root } from './home.ts'

/** The TypeScript examples in the documents, as a user would copy them. */

export interface Example {
  /** The file name from the first line, as in `// agents.test.ts`. Examples without one are programs. */
  readonly name: string
  readonly body: string
  /** Configurations that the document shows before this example. */
  readonly given: readonly Example[]
}

/** Examples of this page need a real agent on the PATH. They run with the suite in test/agents. */
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
