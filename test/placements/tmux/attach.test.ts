import { describe, expect, it } from 'vitest'
import { ebb, ebbProgram } from '../../support/home.ts'
import { needs } from '../../support/real.ts'
import { useServer } from '../../support/shared-server.ts'
import { Terminal } from '../../support/terminal.ts'
import { tmux } from '../../support/tmux.ts'

/** What a user at a terminal sees of an agent in tmux. */

describe('ebb attach', () => {
  needs('tmux')
  const server = useServer()
  const script = `trap 'echo interrupted' INT; echo "hello from the agent"; while :; do sleep 0.1; done`

  it('shows the terminal of an agent, even after its session was renamed; detaching leaves the agent running', async () => {
    const id = await server.command(['sh', '-c', script], { placement: 'tmux' })
    const { name } = await server.get(`/api/agents/${id}`)
    tmux(server.home, 'rename-session', '-t', `=agent_${name}`, 'mine')
    await using terminal = await Terminal.open({ EBB_HOME: server.home })
    terminal.type(`clear; ${ebbProgram} attach ${name}; echo "code $?"`)
    await terminal.shows('hello from the agent')
    // The attached terminal ignores Ctrl-D. Ctrl-C goes to the agent.
    terminal.press('C-d')
    terminal.press('C-c')
    await terminal.shows('interrupted')
    terminal.press('C-b', 'd')
    await terminal.shows('code 0')
    expect(await server.get(`/api/agents/${id}`)).toMatchObject({ status: 'running' })
  })

  it('says why it cannot attach', async () => {
    const id = await server.command(['sleep', '1000'])
    const refused = await ebb(['attach', id], { home: server.home })
    expect({ code: refused.code, stderr: refused.stderr }).toEqual({ code: 2, stderr: expect.stringContaining('has no terminal') })
    const inTmux = await server.command(['sh', '-c', script], { placement: 'tmux' })
    const piped = await ebb(['attach', inTmux], { home: server.home })
    expect({ code: piped.code, stderr: piped.stderr }).toEqual({ code: 2, stderr: expect.stringContaining('needs a terminal') })
  })
})
