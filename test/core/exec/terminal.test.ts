import { describe, expect, it } from 'vitest'
import { fixture } from '../../support/fixtures.ts'
import { ebbProgram, temporaryHome } from '../../support/home.ts'
import { openBooks } from '../../support/ledger-file.ts'
import { needs } from '../../support/real.ts'
import { Terminal } from '../../support/terminal.ts'
import { survivors, waitUntil } from '../../support/world.ts'

/** On a terminal `ebb exec` is not noticed: the command has the screen, the keys and the job control of the shell. */

describe('on a terminal', () => {
  needs('tmux', 'gcc', 'top')

  const exec = `${ebbProgram} exec`

  async function open(): Promise<Terminal & { readonly home: string }> {
    const home = temporaryHome()
    return Object.assign(await Terminal.open({ EBB_HOME: home }), { home })
  }

  it('a full-screen program works and gives the screen back', async () => {
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

  it('top works as it does without us', async () => {
    await using terminal = await open()
    terminal.type(`${exec} -- top -d 60; echo "code $?"`)
    await terminal.shows(/PID +USER/)
    terminal.press('q')
    await terminal.shows('code 0')
  })

  it('Ctrl-C reaches the command once for each press', async () => {
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

  it('Ctrl-C ends a command that does not care for it, with 130', async () => {
    await using terminal = await open()
    terminal.type(`${exec} -- ${fixture('waits')}; echo "code $?"`)
    await runs(terminal.home)
    terminal.press('C-c')
    await terminal.shows('code 130')
  })

  it('Ctrl-C does not force a command that ignores it, however often, before the close has begun', async () => {
    await using terminal = await open()
    terminal.type(`${exec} -- sh -c 'trap "" INT; echo ready; read -r line; echo "still $line"; exit 8'; echo "code $?"`)
    await terminal.shows(/^ready/m)
    for (const _ of [1, 2, 3]) terminal.press('C-c')
    terminal.type('here')
    await terminal.shows('still here')
    await terminal.shows('code 8')
  })

  it('a second Ctrl-C forces once the close has begun', async () => {
    await using terminal = await open()
    const stubborn = `trap "" INT TERM; ${fixture('waits')} & echo ready; read -r _; exit 5`
    terminal.type(`${exec} --grace 10m -- sh -c '${stubborn}'; echo "code $?"`)
    await terminal.shows(/^ready/m)
    terminal.press('Enter')
    // Said by a close that has begun; that the main process is gone may not have reached ebb yet.
    await terminal.shows(/Ctrl-C twice forces them/)
    // Two at once may be one to the kernel.
    terminal.press('C-c')
    await terminal.shows(/repeat the signal to force/)
    terminal.press('C-c')
    await terminal.shows('code 5')
    expect(openBooks(terminal.home)).toEqual([])
  })

  it('Ctrl-Z stops the command and fg brings it back', async () => {
    await using terminal = await open()
    terminal.type(`${exec} -- cat; echo "code $?"`)
    terminal.type('hello')
    await terminal.shows(/hello\nhello/)
    terminal.press('C-z')
    await terminal.shows(/Stopped/)
    terminal.type('fg')
    // The shell names what it brings back, and only then is there somebody to read.
    await terminal.shows(/fg\n.*exec -- cat/)
    terminal.type('again')
    await terminal.shows(/again\nagain/)
    terminal.press('C-d')
    await terminal.shows(/again\nagain\nprompt>/)
  })

  it('closing the terminal ends everything', async () => {
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
    const look = (): boolean => survivors(home).some(({ command }) => command === 'waits')
    return waitUntil(look, 15_000, 'the command runs')
  }
})
