import { spawnSync } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { ebbProgram, nodeProgram, root, temporaryHome } from '../support/home.ts'

/** Inside the package, so that `import … from 'ebb'` finds it as a user's program would. */
const scratch = join(root, 'test', '.scratch')

afterAll(() => rmSync(scratch, { recursive: true, force: true }))

const documents = ['README.md', ...readdirSync(join(root, 'docs', 'guide')).map((name) => join('docs', 'guide', name))]

const blocks = (file: string, language: string): string[] =>
  [...readFileSync(join(root, file), 'utf8').matchAll(new RegExp(`\`\`\`${language}\\n([\\s\\S]*?)\`\`\``, 'g'))].map(
    ([, body = '']) => body,
  )

describe('every TypeScript example in the documents runs', () => {
  for (const file of documents) {
    blocks(file, 'ts').forEach((body, index) => {
      test(`${file}, example ${index + 1}`, () => {
        const home = temporaryHome()
        mkdirSync(scratch, { recursive: true })
        const program = join(scratch, `example-${process.pid}-${index}.ts`)
        writeFileSync(program, body)
        const run = spawnSync(nodeProgram, ['--disable-warning=ExperimentalWarning', program], {
          cwd: home,
          encoding: 'utf8',
          timeout: 30_000,
        })
        expect([run.status, run.stderr]).toEqual([0, ''])
        expect(run.stdout).not.toBe('')
      })
    })
  }
})

test('every `ebb` option that the documents show exists', () => {
  const shown = documents.flatMap((file) => blocks(file, 'console')).flatMap((body) => [...body.matchAll(/ebb (\w+)([^\n#]*)/g)])
  expect(shown.length).toBeGreaterThan(5)
  for (const [, command = '', rest = ''] of shown) {
    const help = spawnSync(ebbProgram, ['help', command], { encoding: 'utf8', env: { ...process.env, EBB_HOME: temporaryHome() } })
    expect(help.status, `ebb help ${command}`).toBe(0)
    for (const [flag] of (rest.split(' -- ')[0] ?? '').matchAll(/--[a-z-]+/g)) expect(help.stdout).toContain(flag)
  }
})
