import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ebbProgram, root } from '../support/home.ts'
import { startServer, type TestServer } from '../support/server.ts'
import { playwright, tsc, userProject, vitest } from '../support/user-project.ts'

const documents = ['README.md', ...readdirSync(join(root, 'docs', 'guide')).map((name) => join('docs', 'guide', name))]

const blocks = (file: string, language: string): string[] =>
  [...readFileSync(join(root, file), 'utf8').matchAll(new RegExp(`\`\`\`${language}\\n([\\s\\S]*?)\`\`\``, 'g'))].map(
    ([, body = '']) => body,
  )

interface Example {
  /** Its first line says so, as in `// agents.test.ts`; one that does not is a program. */
  readonly name: string
  readonly body: string
  /** Configurations that the document has shown before it. */
  readonly given: readonly Example[]
}

function examplesOf(file: string): readonly Example[] {
  const given: Example[] = []
  return blocks(file, 'ts').map((body, index) => {
    const name = /^\/\/ (\S+\.ts)\n/.exec(body)?.[1] ?? `example-${index + 1}.ts`
    const example = { name, body, given: [...given] }
    if (name.endsWith('.config.ts')) given.push(example)
    return example
  })
}

/** For Vitest, or for Playwright. */
const isTest = (name: string): boolean => /\.(test|spec)\.ts$/.test(name)

describe('every TypeScript example in the documents', () => {
  let server: TestServer

  beforeAll(async () => {
    server = await startServer()
  })

  afterAll(async () => await server.stop())

  for (const file of documents) {
    for (const { name, body, given } of examplesOf(file)) {
      if (name.endsWith('.config.ts')) continue
      test(`${file}, ${name} runs`, async () => {
        const project = userProject()
        for (const one of [...given, { name, body }]) project.write(one.name, one.body)
        if (isTest(name)) {
          const words = name.endsWith('.test.ts') ? [vitest, 'run', name] : [playwright, 'test', name]
          const ran = await project.run(words, { EBB_PORT: String(await freePort()) })
          const tests = body.match(/^ *(it|test)\(/gm)?.length
          expect(ran).toEqual({ code: 0, stdout: expect.stringMatching(new RegExp(`\\b${tests} passed`)), stderr: '' })
        } else {
          const ran = await project.run([name], { EBB_URL: server.url })
          expect(ran).toEqual({ code: 0, stdout: expect.stringMatching(/./), stderr: '' })
        }
      })
    }
  }

  test('has the right types', async () => {
    const project = userProject()
    const { compilerOptions } = JSON.parse(readFileSync(join(root, 'tsconfig.json'), 'utf8'))
    project.write('tsconfig.json', JSON.stringify({ compilerOptions, include: ['*.ts'] }))
    const examples = documents.flatMap((file) => examplesOf(file).map((example) => ({ ...example, file })))
    for (const { file, name, body } of examples) project.write(`${file.replaceAll('/', '-')}-${name}`, body)
    expect(await project.run([tsc, '--pretty', 'false'])).toEqual({ code: 0, stdout: '', stderr: '' })
  })
})

/** For a server whose configuration must know its port before it starts. */
async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1')
  await new Promise((resolve) => probe.once('listening', resolve))
  const address = probe.address()
  await new Promise((resolve) => probe.close(resolve))
  return typeof address === 'object' && address ? address.port : 0
}

test('every `ebb` option that the documents show exists', () => {
  const shown = documents.flatMap((file) => blocks(file, 'console')).flatMap((body) => [...body.matchAll(/ebb (\w+)([^\n#]*)/g)])
  expect(shown.length).toBeGreaterThan(5)
  const helps = new Map<string, string>()
  for (const [, command = '', rest = ''] of shown) {
    const help = helps.get(command) ?? helpOf(command)
    helps.set(command, help)
    for (const [flag] of (rest.split(' -- ')[0] ?? '').matchAll(/--[a-z-]+/g)) expect(help, `ebb ${command} ${flag}`).toContain(flag)
  }
})

function helpOf(command: string): string {
  const { status, stdout } = spawnSync(ebbProgram, ['help', command], { encoding: 'utf8' })
  expect(status, `ebb help ${command}`).toBe(0)
  return stdout
}
