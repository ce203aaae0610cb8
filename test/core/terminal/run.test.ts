import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, expect, it } from 'vitest'
import { ebb, ebbProgram, temporaryHome } from '../../support/home.ts'
import { openBooks } from '../../support/ledger-file.ts'
import { needs } from '../../support/real.ts'
import { useServer } from '../../support/shared-server.ts'
import { Terminal } from '../../support/terminal.ts'
import { waitUntil } from '../../support/world.ts'

/** Waiting and stopping on a terminal, as a user sees it. */

needs('tmux')

const server = useServer()
const ignoring = 'trap "" TERM INT; echo ready; while :; do sleep 1000; done'
const stubborn = `sh -c '${ignoring}'`

async function stubbornAgent(): Promise<string> {
  const id = await server.command(['sh', '-c', ignoring])
  await server.get(`/api/agents/${id}/messages?since=1&wait=10000`)
  return id
}

describe('ebb run: Ctrl-C', () => {
  it('once stops the agent politely, and the last line names the strength of the proof', async () => {
    const home = temporaryHome()
    await using terminal = await Terminal.open({ EBB_HOME: home, E: ebbProgram })
    terminal.type(`$E run command hi -- sh -c 'trap "echo bye; exit 0" TERM; echo ready; sleep 1000 & wait'; echo "code $?"`)
    await terminal.shows(/^ready$/m)
    terminal.press('C-c')
    await terminal.shows('code 130')
    expect(terminal.screen()).toMatch(
      /^❯ hi\n\nready\n\^?C?stopping… \(again to force\)\nbye\n\n■ terminated in .* · \d messages · \d resources released, proof:\s+kernel/m,
    )
    expect(openBooks(home)).toEqual([])
  })

  it('twice forces; in between, a status line names the wait, and it is removed at the end', async () => {
    const home = temporaryHome()
    await using terminal = await Terminal.open({ EBB_HOME: home, E: ebbProgram })
    terminal.type(`$E run command --grace 10m -- ${stubborn}; echo "code $?"`)
    await terminal.shows(/^ready$/m)
    terminal.press('C-c')
    await terminal.shows(/… stopping; Ctrl-C again forces it \(\d+ s\)/)
    terminal.press('C-c')
    await terminal.shows('code 130')
    expect(terminal.screen()).toMatch(/stopping… \(again to force\)\n(\^C)?forcing…\n\n■ terminated in /)
    expect(terminal.screen()).not.toContain('… stopping; Ctrl-C')
    expect(openBooks(home)).toEqual([])
  })
})

describe('cli: operations that take longer than a second', () => {
  it('show on a terminal what they wait for, and remove that line at the end', async () => {
    const one = await stubbornAgent()
    await using terminal = await Terminal.open({ EBB_HOME: server.home, E: ebbProgram })
    terminal.type(`clear; $E stop ${one} --grace 4s; echo over`)
    await terminal.shows(new RegExp(`^… stopping ${one} \\(\\d s\\)`, 'm'))
    await terminal.shows(/^over\nprompt>$/m)
    expect(terminal.screen().trimEnd().split('\n')).toEqual([`${one} stopped`, 'over', 'prompt>'])
  })

  it('continue on the server when the wait is interrupted', async () => {
    const one = await stubbornAgent()
    await using terminal = await Terminal.open({ EBB_HOME: server.home, E: ebbProgram })
    terminal.type(`clear; $E stop ${one} --grace 4s; echo "code $?"`)
    await terminal.shows(/^… stopping .* \(\d s\)/m)
    terminal.press('C-c')
    await terminal.shows(`ebb: the server continues stopping ${one};`)
    await terminal.shows('code 130')
    expect(await server.get(`/api/agents/${one}/status?wait=10000`)).toMatchObject({ status: 'terminated' })
  })

  it('show no status line for scripts: as JSON, on a dumb terminal, or when stderr is no terminal', async () => {
    const [json, dumb, piped] = await Promise.all([stubbornAgent(), stubbornAgent(), stubbornAgent()])
    const stopped = await ebb(['stop', piped, '--grace', '3s'], { home: server.home })
    expect([stopped.code, stopped.stdout.toString(), stopped.stderr]).toEqual([0, `${piped} stopped\n`, ''])
    await using terminal = await Terminal.open({ EBB_HOME: server.home, E: ebbProgram }, { columns: 120 })
    terminal.type(`clear; $E stop ${json} --json --grace 2s | cat >/dev/null; echo one`)
    terminal.type(`TERM=dumb $E stop ${dumb} --grace 2s; echo two`)
    const screens = new Set<string>()
    const hasEnded = (): boolean => {
      screens.add(terminal.screen())
      return /^two$/m.test(terminal.screen())
    }
    await waitUntil(hasEnded, 20_000, 'all have been stopped')
    for (const screen of screens) expect(screen).not.toMatch(/… stopping|\(\d s\)/)
    expect(terminal.screen()).toContain(`${dumb} stopped`)
  })

  it('a server that shuts down shows what it waits for', async () => {
    await using terminal = await Terminal.open({ EBB_HOME: temporaryHome(), E: ebbProgram })
    terminal.type('$E serve --port 0; echo "code $?"')
    await terminal.shows('Ctrl-C closes everything.')
    const url = /http:\S+/.exec(terminal.screen())?.[0] ?? ''
    const body = JSON.stringify({ type: 'command', prompt: '', configuration: { command: ['sh', '-c', ignoring] } })
    const launched = await fetch(`${url}/api/agents`, { method: 'POST', body, headers: { 'content-type': 'application/json' } })
    const { id } = (await launched.json()) as { id: string }
    await fetch(`${url}/api/agents/${id}/messages?since=1&wait=10000`)
    terminal.press('C-c')
    await terminal.shows(/^(\^C)?… closing everything; Ctrl-C again forces it \(\d s\)/m)
    terminal.press('C-c')
    await terminal.shows('code 0')
    expect(terminal.screen()).not.toContain('… closing everything')
  })

  it('a launch shows what it waits for', async () => {
    const held = Promise.withResolvers<ServerResponse>()
    const slow = createServer((request, response) => {
      if (request.method === 'POST') held.resolve(response)
      else response.end('{"pid":1}')
    })
    await new Promise<void>((resolve) => slow.listen(0, '127.0.0.1', resolve))
    const url = `http://127.0.0.1:${(slow.address() as AddressInfo).port}`
    try {
      await using terminal = await Terminal.open({ EBB_HOME: temporaryHome(), E: ebbProgram, EBB_URL: url })
      terminal.type('clear; $E run command --placement docker -- true; echo "code $?"')
      await terminal.shows(/^… waiting for Docker to start the container \(\d s\)/m)
      const answer = await held.promise
      answer.writeHead(400)
      answer.end(JSON.stringify({ statusCode: 400, code: 'launch_refused', message: 'There is no such image.' }))
      await terminal.shows(/^code 1\nprompt>$/m)
      expect(terminal.screen().trimEnd().split('\n')).toEqual(['ebb: There is no such image.', 'code 1', 'prompt>'])
    } finally {
      slow.closeAllConnections()
      slow.close()
    }
  })
})
