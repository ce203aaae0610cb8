import { readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Ended, ebb, startEbb, temporaryHome } from '../../support/home.ts'
import { startServer, type TestServer } from '../../support/server.ts'

/** How a command finds its server: first the address that was given, then the server of the home. */

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

/** A home whose server.json names a server. */
function homeWith(content: object): string {
  const home = temporaryHome()
  writeFileSync(join(home, 'server.json'), JSON.stringify(content))
  return home
}

/** A pid above the kernel's limit, so that no process has it. */
const unusedPid = 4_194_305

describe('cli: finding the server', () => {
  it('finds the server of the home, with its token', async () => {
    expect(await ps(server.home)).toMatchObject({ code: 0, stderr: '' })
  })

  it('--url and EBB_URL take precedence over the home', async () => {
    const elsewhere = homeWith({ url: 'http://127.0.0.1:2', pid: unusedPid })
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

  it('the token does not appear in the process list', async () => {
    const called = Promise.withResolvers<void>()
    const silent = createServer(() => called.resolve())
    await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve))
    const url = `http://127.0.0.1:${(silent.address() as AddressInfo).port}`
    const run = startEbb(['ps', '--token', token, '--url', url], { home: temporaryHome() })
    await called.promise
    expect(readFileSync(`/proc/${run.pid}/cmdline`, 'utf8')).not.toContain(token)
    silent.close()
    silent.closeAllConnections()
    expect(await run.ended).toMatchObject({ code: 1 })
  })

  it('the token of the home is sent only to the server of the home', async () => {
    expect(await ps(server.home, { EBB_URL: server.url })).toMatchObject({ code: 0 })
    const other = homeWith({ url: 'http://127.0.0.1:2', pid: unusedPid, token })
    expectUnreachable(await ps(other, { EBB_URL: server.url }), /requires a token; give it with --token or EBB_TOKEN/)
    expectUnreachable(await ps(server.home, { EBB_TOKEN: 'another-token' }), /requires a token/)
  })
})

describe('cli: no server', () => {
  it('the error says how to start one', async () => {
    const home = temporaryHome()
    expectUnreachable(await ps(home), new RegExp(`No server runs on the home ${home}; start one with: ebb serve`))
  })

  it('the error names a server that was killed and left its file', async () => {
    const { port } = new URL(server.url)
    const [killed, replaced] = await Promise.all([
      ps(homeWith({ url: 'http://127.0.0.1:2', pid: unusedPid })),
      // The port of the killed server is used by another process by now, which must not be taken for the server.
      ps(homeWith({ url: `http://127.0.0.1:${port}`, pid: process.pid, token })),
    ])
    expectUnreachable(killed, new RegExp(`pid ${unusedPid}, http://127.0.0.1:2\\) no longer runs; start another one with: ebb serve`))
    expectUnreachable(replaced, new RegExp(`pid ${process.pid}, .*no longer runs`))
  })

  it('an invalid server.json counts as no server', async () => {
    const home = temporaryHome()
    writeFileSync(join(home, 'server.json'), '{"url":')
    expectUnreachable(await ps(home), /No server runs/)
  })

  it('the error names an address without a server', async () => {
    expectUnreachable(
      await ps(temporaryHome(), { EBB_URL: 'http://127.0.0.1:2' }),
      /No server answers at http:\/\/127\.0\.0\.1:2 \(ECONNREFUSED\)/,
    )
  })

  it('the error names an address with another kind of server', async () => {
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

  it('every command for agents reports it and exits with 1', async () => {
    const home = temporaryHome()
    const commands = [['ps'], ['show', 'abcd'], ['logs', 'abcd'], ['stop', 'abcd'], ['rm', 'abcd'], ['reset']]
    const ends = await Promise.all(commands.map((words) => ebb(words, { home })))
    for (const ended of ends) expectUnreachable(ended, /No server runs on the home/)
  })
})
