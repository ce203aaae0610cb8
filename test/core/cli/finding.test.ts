import { readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Ended, ebb, startEbb, temporaryHome } from '../../support/home.ts'
import { startServer, type TestServer } from '../../support/server.ts'

/** Which server a command talks to: the one that was named, else the one of the home. */

const token = 'a-token-of-some-length'
let server: TestServer

beforeAll(async () => {
  server = await startServer(['--token', token])
})

afterAll(async () => await server.stop())

const ps = (home: string, env: Record<string, string> = {}, words: readonly string[] = []): Promise<Ended> =>
  ebb(['ps', ...words], { home, env })

function expectUnreachable(ended: Ended, sentence: RegExp): void {
  expect(ended).toMatchObject({ code: 1, stdout: Buffer.from('') })
  expect(ended.stderr).toMatch(/^ebb: [^\n]*\n$/)
  expect(ended.stderr).toMatch(sentence)
}

/** A home whose file says that a server is there. */
function homeWith(content: object): string {
  const home = temporaryHome()
  writeFileSync(join(home, 'server.json'), JSON.stringify(content))
  return home
}

/** A pid that nobody has: the kernel's own limit is below it. */
const nobody = 4_194_305

describe('the server', () => {
  it('is found by the home, with its token', async () => {
    expect(await ps(server.home)).toMatchObject({ code: 0, stderr: '' })
  })

  it('is found by --url and EBB_URL, which beat the home', async () => {
    const elsewhere = homeWith({ url: 'http://127.0.0.1:2', pid: nobody })
    const env = { EBB_TOKEN: token }
    const ends = await Promise.all([
      ps(elsewhere, { ...env, EBB_URL: server.url }),
      ps(elsewhere, { ...env, EBB_URL: 'http://127.0.0.1:2' }, ['--url', server.url]),
      ps(elsewhere, {}, ['--token', token, `--url=${server.url}/`]),
    ])
    expect(ends.map(({ code, stderr }) => [code, stderr])).toEqual([
      [0, ''],
      [0, ''],
      [0, ''],
    ])
  })

  it('is told a token that others do not see in ps', async () => {
    const asked = Promise.withResolvers<void>()
    const silent = createServer(() => asked.resolve())
    await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve))
    const url = `http://127.0.0.1:${(silent.address() as AddressInfo).port}`
    const run = startEbb(['ps', '--token', token, '--url', url], { home: temporaryHome() })
    await asked.promise
    expect(readFileSync(`/proc/${run.pid}/cmdline`, 'utf8')).not.toContain(token)
    silent.close()
    silent.closeAllConnections()
    expect(await run.ended).toMatchObject({ code: 1 })
  })

  it('is told its token only when it is its own', async () => {
    expect(await ps(server.home, { EBB_URL: server.url })).toMatchObject({ code: 0 })
    const other = homeWith({ url: 'http://127.0.0.1:2', pid: nobody, token })
    expectUnreachable(await ps(other, { EBB_URL: server.url }), /requires a token; give it with --token or EBB_TOKEN/)
    expectUnreachable(await ps(server.home, { EBB_TOKEN: 'another-token' }), /requires a token/)
  })
})

describe('when there is none', () => {
  it('what to do is said', async () => {
    const home = temporaryHome()
    expectUnreachable(await ps(home), new RegExp(`No server runs on the home ${home}; start one with: ebb serve`))
  })

  it('a file that a killed server left is told as such', async () => {
    const { port } = new URL(server.url)
    const [killed, replaced] = await Promise.all([
      ps(homeWith({ url: 'http://127.0.0.1:2', pid: nobody })),
      // Somebody else has its port by now, and is not taken for it.
      ps(homeWith({ url: `http://127.0.0.1:${port}`, pid: process.pid, token })),
    ])
    expectUnreachable(killed, new RegExp(`pid ${nobody}, http://127.0.0.1:2\\) no longer runs; start another one with: ebb serve`))
    expectUnreachable(replaced, new RegExp(`pid ${process.pid}, .*no longer runs`))
  })

  it('a file that is no such file is nobody', async () => {
    const home = temporaryHome()
    writeFileSync(join(home, 'server.json'), '{"url":')
    expectUnreachable(await ps(home), /No server runs/)
  })

  it('an address at which nobody answers is named', async () => {
    expectUnreachable(
      await ps(temporaryHome(), { EBB_URL: 'http://127.0.0.1:2' }),
      /No server answers at http:\/\/127\.0\.0\.1:2 \(ECONNREFUSED\)/,
    )
  })

  it('an address at which something else answers is named', async () => {
    const stranger = createServer((request, response) => response.writeHead(request.url?.includes('active') ? 200 : 404).end('<html>'))
    await new Promise<void>((resolve) => stranger.listen(0, '127.0.0.1', resolve))
    const url = `http://127.0.0.1:${(stranger.address() as AddressInfo).port}`
    try {
      const ends = await Promise.all([ps(temporaryHome(), { EBB_URL: url }), ps(temporaryHome(), { EBB_URL: url }, ['--all'])])
      for (const ended of ends) expectUnreachable(ended, new RegExp(`The program that answers at ${url} is not an Ebb server`))
    } finally {
      stranger.close()
    }
  })

  it('every command about agents says so, with 1', async () => {
    const home = temporaryHome()
    const commands = [['ps'], ['show', 'abcd'], ['logs', 'abcd'], ['stop', 'abcd'], ['rm', 'abcd'], ['reset']]
    const ends = await Promise.all(commands.map((words) => ebb(words, { home })))
    for (const ended of ends) expectUnreachable(ended, /No server runs on the home/)
  })
})
