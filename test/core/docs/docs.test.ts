import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { errno } from '../../../src/core/model/errors.ts'
import { blocks, examplesOf, realAgents, testsIn } from '../../support/documents.ts'
import { ebbProgram, root } from '../../support/home.ts'
import { startServer, type TestServer } from '../../support/server.ts'
import { playwright, tsc, userProject, vitest } from '../../support/user-project.ts'

const pagesIn = (folder: string): string[] => readdirSync(join(root, 'docs', folder)).map((name) => join('docs', folder, name))
const documents = ['README.md', ...pagesIn('guide'), ...pagesIn('in-depth')]

/** True for a file that Vitest or Playwright runs. */
const isTest = (name: string): boolean => /\.(test|spec)\.ts$/.test(name)

describe('docs: TypeScript examples', () => {
  let server: TestServer

  beforeAll(async () => {
    server = await startServer()
  })

  afterAll(async () => await server.stop())

  for (const file of documents.filter((one) => one !== realAgents)) {
    for (const { name, body, given } of examplesOf(file)) {
      if (name.endsWith('.config.ts')) continue
      test(`${file}, ${name} runs`, async () => {
        const project = userProject()
        for (const one of [...given, { name, body }]) project.write(one.name, one.body)
        if (isTest(name)) {
          const words = name.endsWith('.test.ts') ? [vitest, 'run', name] : [playwright, 'test', name]
          const ran = await project.run(words, { EBB_PORT: String(await freePort()) })
          expect(ran).toEqual({ code: 0, stdout: expect.stringMatching(new RegExp(`\\b${testsIn(body)} passed`)), stderr: '' })
        } else {
          const ran = await project.run([name], { EBB_URL: server.url })
          expect(ran).toEqual({ code: 0, stdout: expect.stringMatching(/./), stderr: '' })
        }
      })
    }
  }

  test('all examples pass the type check', async () => {
    const project = userProject()
    const { compilerOptions } = JSON.parse(readFileSync(join(root, 'tsconfig.json'), 'utf8'))
    project.write('tsconfig.json', JSON.stringify({ compilerOptions, include: ['*.ts'] }))
    const examples = documents.flatMap((file) => examplesOf(file).map((example) => ({ ...example, file })))
    for (const { file, name, body } of examples) project.write(`${file.replaceAll('/', '-')}-${name}`, body)
    expect(await project.run([tsc, '--pretty', 'false'])).toEqual({ code: 0, stdout: '', stderr: '' })
  })
})

/**
 * Returns a free port for a server whose configuration contains its port. The port is below the ip_local_port_range of ip(7), so the kernel
 * does not assign it to another process before the server listens.
 */
async function freePort(port = 20_000 + (process.pid % 10_000)): Promise<number> {
  const probe = createServer().listen(port, '127.0.0.1')
  try {
    await once(probe, 'listening')
  } catch (error) {
    if (errno(error) !== 'EADDRINUSE') throw error
    return await freePort(port + 1)
  }
  await new Promise((resolve) => probe.close(resolve))
  return port
}

test('docs: every `ebb` option that is shown exists', () => {
  const shown = documents.flatMap((file) => blocks(file, 'console')).flatMap((body) => [...body.matchAll(/ebb (\w[\w-]*)([^\n#]*)/g)])
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
