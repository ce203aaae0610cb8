import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ebb, ebbProgram, temporaryHome } from '../../support/home.ts'
import { needs } from '../../support/real.ts'
import { startServer, type TestServer } from '../../support/server.ts'
import { Terminal } from '../../support/terminal.ts'

/** A server that hangs, or is not an Ebb server. Each command shows the wait, and ends with a clear error. */

needs('tmux')

let hung: TestServer

beforeAll(async () => {
  hung = await startServer()
  hung.ebb.signal('SIGSTOP')
})

afterAll(async () => {
  hung.ebb.signal('SIGCONT')
  await hung.stop()
})

const commands = ['ps', 'show abcd', 'logs abcd', 'attach abcd', 'top', 'stop abcd', 'rm abcd', 'reset', 'run command -- true']

describe('cli: a server that hangs', () => {
  it('every command shows the wait, and reports the server in the end', async () => {
    const ask = async (words: string): Promise<void> => {
      await using terminal = await Terminal.open({ EBB_HOME: hung.home, E: ebbProgram }, { columns: 200 })
      terminal.type(`clear; $E ${words}; echo "code $?"`)
      await terminal.shows(/^… waiting for the server to answer \(\d+ s\)/m)
      await terminal.shows('code 1')
      expect(terminal.screen()).toMatch(/^ebb: The server of .* runs but does not answer; .*\ncode 1$/m)
    }
    await Promise.all(commands.map(ask))
  })

  it('with a given address no command waits longer', async () => {
    const ends = await Promise.all(
      commands.map((words) => ebb(words.split(' '), { home: temporaryHome(), env: { EBB_URL: hung.url }, deadlineMs: 20_000 })),
    )
    for (const ended of ends)
      expect(ended).toMatchObject({
        code: 1,
        stderr: `ebb: The server at ${hung.url} does not answer in time; check that it is healthy.\n`,
      })
  })
})

it.each(['{}', '[]', 'null', '"ok"', '{"agents":[]}'])('cli: a server that answers %s is reported as no Ebb server', async (answer) => {
  const stranger = createServer((_, response) => response.end(answer))
  await new Promise<void>((resolve) => stranger.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(stranger.address() as AddressInfo).port}`
  try {
    const ends = await Promise.all(
      [['ps'], ['top'], ['status'], ['run', 'command', '--', 'true']].map((words) =>
        ebb(words, { home: temporaryHome(), env: { EBB_URL: url } }),
      ),
    )
    for (const ended of ends)
      expect(ended).toMatchObject({ code: 1, stderr: `ebb: The program that answers at ${url} is not an Ebb server; check the address.\n` })
  } finally {
    stranger.closeAllConnections()
    stranger.close()
  }
})
