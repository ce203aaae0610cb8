import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ebbProgram, temporaryHome } from '../../support/home.ts'
import { openBooks } from '../../support/ledger-file.ts'
import { needs } from '../../support/real.ts'
import { startServer, type TestServer } from '../../support/server.ts'
import { Terminal } from '../../support/terminal.ts'

/** The output of the commands for agents on a terminal. */

describe('cli on a terminal', () => {
  needs('tmux')

  let server: TestServer

  beforeAll(async () => {
    server = await startServer()
  })

  afterAll(async () => await server.stop())

  it('Ctrl-C stops the agent without sending it the key, and a second one forces', async () => {
    const home = temporaryHome()
    await using terminal = await Terminal.open({ EBB_HOME: home })
    terminal.type(
      `${ebbProgram} run command --grace 10m -- sh -c 'trap "" TERM; trap "echo got-int" INT; echo ready; while :; do sleep 1000; done'; echo "code $?"`,
    )
    await terminal.shows(/^ready$/m)
    terminal.press('C-c')
    await terminal.shows('stopping… (again to force)')
    terminal.press('C-c')
    await terminal.shows('code 130')
    expect(terminal.screen()).not.toMatch(/^got-int$/m)
    expect(openBooks(home)).toEqual([])
  })

  it('agent output cannot move the cursor, and a long prompt is cut to the width', async () => {
    const trick = 'printf "a\\033[2Jb\\033]0;title\\007c\\033[31md\\n"; exec sleep 1000'
    const id = await server.command(['sh', '-c', trick], { prompt: `\u001b[2J界 ${'long '.repeat(100)}` })
    await server.get(`/api/agents/${id}/messages?since=1&wait=10000`)
    await using terminal = await Terminal.open({ EBB_HOME: server.home })
    terminal.type(`${ebbProgram} ps; ${ebbProgram} logs ${id} | tail -n 1 | od -An -c | head -n 1; ${ebbProgram} logs ${id}; echo over`)
    await terminal.shows(/^over\nprompt>$/m)
    const rows = terminal.screen().split('\n')
    const row = rows.findIndex((line) => line.startsWith(id.slice(0, 8)))
    expect(rows[row]).toMatch(/ 界 long .*…$/)
    // The agent's row took one line: the header is on the line above and the next output on the line below.
    expect(rows[row - 1]).toMatch(/^ID +TYPE/)
    // In a pipe, the bytes that the agent wrote are unchanged.
    expect(rows[row + 1]).toMatch(/^ +a +033 +\[ +2 +J +b/)
    expect(rows).toContain('abcd')
    expect(await server.post('/api/test/reset-environment', { force: true })).toMatchObject({ success: true })
  })
})
