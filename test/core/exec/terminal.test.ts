import { describe, expect, it } from 'vitest'
import { fixture } from '../../support/fixtures.ts'
import { ebbProgram, temporaryHome } from '../../support/home.ts'
import { openBooks } from '../../support/ledger-file.ts'
import { needs } from '../../support/real.ts'
import { Terminal } from '../../support/terminal.ts'
import { survivors, waitUntil } from '../../support/world.ts'

/** `ebb exec` on a terminal: the command has the screen, the keys and the job control of the shell, as without Ebb. */

describe('ebb exec on a terminal', () => {
  needs('tmux', 'gcc', 'top')

  const exec = `${ebbProgram} exec`

  async function open(): Promise<Terminal & { readonly home: string }> {
    const home = temporaryHome()
    return Object.assign(await Terminal.open({ EBB_HOME: home }), { home })
  }

  it('runs a full-screen program, which restores the screen', async () => {
    await using terminal = await open()
    terminal.type(`${exec} -- ${fixture('draws-full-screen')}; echo "code $?"`)
    await terminal.shows('size 100x30, key -')
    terminal.press('x')
    await terminal.shows('size 100x30, key x')
    terminal.resize(80, 20)
    await terminal.shows('size 80x20, key x')
    terminal.press('q')
    await terminal.shows('code 6')
    expect(terminal.screen()).not.toContain('size 80x20')
  })

  it('runs top', async () => {
    await using terminal = await open()
    terminal.type(`${exec} -- top -d 60; echo "code $?"`)
    await terminal.shows(/PID +USER/)
    terminal.press('q')
    await terminal.shows('code 0')
  })

  it('passes each Ctrl-C to the command once', async () => {
    await using terminal = await open()
    terminal.type(`${exec} -- ${fixture('counts-interrupts')}; echo "code $?"`)
    await terminal.shows(/^ready/m)
    for (const count of [1, 2, 3]) {
      terminal.press('C-c')
      await terminal.shows(`interrupt ${count}`)
    }
    terminal.press('Enter')
    await terminal.shows('code 3')
    expect(terminal.screen()).toContain('in all 3')
  })

  it('exits with 130 when Ctrl-C ends the command', async () => {
    await using terminal = await open()
    terminal.type(`${exec} -- ${fixture('waits')}; echo "code $?"`)
    await runs(terminal.home)
    terminal.press('C-c')
    await terminal.shows('code 130')
  })

  it('does not force a command that ignores Ctrl-C before the close has begun', async () => {
    await using terminal = await open()
    terminal.type(`${exec} -- sh -c 'trap "" INT; echo ready; read -r line; echo "still $line"; exit 8'; echo "code $?"`)
    await terminal.shows(/^ready/m)
    for (const _ of [1, 2, 3]) terminal.press('C-c')
    terminal.type('here')
    await terminal.shows('still here')
    await terminal.shows('code 8')
  })

  it('forces on a second Ctrl-C after the close has begun', async () => {
    await using terminal = await open()
    const stubborn = `trap "" INT TERM; ${fixture('waits')} & echo ready; read -r _; exit 5`
    terminal.type(`${exec} --grace 10m -- sh -c '${stubborn}'; echo "code $?"`)
    await terminal.shows(/^ready/m)
    terminal.press('Enter')
    // `ebb exec` prints "Ctrl-C twice forces them" when the close has begun. Before that, it may not know that the main process has ended.
    await terminal.shows(/Ctrl-C twice forces them/)
    // The kernel may merge two SIGINT that are pending at once, so the second waits for the first.
    terminal.press('C-c')
    await terminal.shows(/repeat the signal to force/)
    terminal.press('C-c')
    await terminal.shows('code 5')
    expect(openBooks(terminal.home)).toEqual([])
  })

  it('stops the command on Ctrl-Z and continues it on fg', async () => {
    await using terminal = await open()
    terminal.type(`${exec} -- cat; echo "code $?"`)
    terminal.type('hello')
    await terminal.shows(/hello\nhello/)
    terminal.press('C-z')
    await terminal.shows(/Stopped/)
    terminal.type('fg')
    // The shell prints the command when it continues it. Only then the command reads input.
    await terminal.shows(/fg\n.*exec -- cat/)
    terminal.type('again')
    await terminal.shows(/again\nagain/)
    terminal.press('C-d')
    await terminal.shows(/again\nagain\nprompt>/)
  })

  it('ends everything when the terminal closes', async () => {
    const home = temporaryHome()
    {
      await using terminal = await Terminal.open({ EBB_HOME: home })
      terminal.type(`${exec} -- sh -c 'trap "" HUP; ${fixture('daemonizes')}'`)
      await terminal.shows(/^ready/m)
    }
    await waitUntil(() => survivors(home).map(({ pid, command }) => `${pid} ${command}`), 15_000, 'everything has ended')
    expect(openBooks(home)).toEqual([])
  })

  function runs(home: string): Promise<void> {
    const isRunning = (): boolean => survivors(home).some(({ command }) => command === 'waits')
    return waitUntil(isRunning, 15_000, 'the command runs')
  }
})
