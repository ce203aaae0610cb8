import { existsSync, readFileSync, rmdirSync, unlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { ebb, ebbProgram, startEbb, temporaryHome } from '../../support/home.ts'
import { installationOf, openBooks } from '../../support/ledger-file.ts'
import { needs } from '../../support/real.ts'
import { startServer } from '../../support/server.ts'
import { Terminal } from '../../support/terminal.ts'
import { describe as describeProcess, processesOfHome, seen, survivors, waitUntil } from '../../support/world.ts'
import { heldServer } from './held-server.ts'

/** Interrupted runs of `ebb run`: the user can always leave, and the output about the agent is true. */

needs('tmux')

const cleansUp = `sh -c 'trap "echo cleaning up; sleep 1.5; echo done >> $F; exit 0" TERM; echo ready; sleep 1000 & wait'`
const ready = ['--', 'sh', '-c', 'echo ready; exec sleep 1000']

describe('ebb run: one Ctrl-C or a closed terminal lets the agent end gracefully', () => {
  it('also when the reader of its output ends with it', async () => {
    const [home, file] = [temporaryHome(), join(temporaryHome(), 'file')]
    await using terminal = await Terminal.open({ EBB_HOME: home, E: ebbProgram, F: file })
    terminal.type(`$E run command hi -- ${cleansUp} | tee /dev/null`)
    await terminal.shows(/^ready$/m)
    terminal.press('C-c')
    await waitUntil(() => openBooks(home).length === 0, 15_000, 'the agent has ended')
    expect(existsSync(file) && readFileSync(file, 'utf8')).toBe('done\n')
  })

  it('also when the terminal is closed', async () => {
    const [home, file] = [temporaryHome(), join(temporaryHome(), 'file')]
    await using terminal = await Terminal.open({ EBB_HOME: home, E: ebbProgram, F: file })
    terminal.type(`$E run command hi -- ${cleansUp}`)
    await terminal.shows(/^ready$/m)
    await terminal.close()
    await waitUntil(() => openBooks(home).length === 0, 15_000, 'the agent has ended')
    expect(existsSync(file) && readFileSync(file, 'utf8')).toBe('done\n')
  })
})

describe('ebb run: a server that hangs', () => {
  it('the third Ctrl-C leaves and says that the agent may still run', async () => {
    await using own = await startServer()
    await using terminal = await Terminal.open({ EBB_HOME: own.home, E: ebbProgram }, { columns: 200 })
    terminal.type(`$E run command hi -- sh -c 'echo ready; exec sleep 1000'; echo "code $?"`)
    await terminal.shows(/^ready$/m)
    own.ebb.signal('SIGSTOP')
    try {
      terminal.press('C-c')
      await terminal.shows('stopping… (again to force)')
      terminal.press('C-c')
      await terminal.shows('forcing…')
      terminal.press('C-c')
      await terminal.shows(/does not answer; the agent [0-9a-f-]{36} may still run there[\s\S]*code 3/)
    } finally {
      own.ebb.signal('SIGCONT')
    }
  })

  it('a second SIGHUP leaves when the terminal is gone', async () => {
    await using own = await startServer()
    const run = startEbb(['run', 'command', ...ready], { home: own.home })
    await run.says('ready')
    own.ebb.signal('SIGSTOP')
    try {
      run.signal('SIGHUP')
      run.signal('SIGHUP')
      expect(await run.ended).toMatchObject({ code: 3, stderr: expect.stringMatching(/does not answer; the agent .* may still run there/) })
    } finally {
      own.ebb.signal('SIGCONT')
    }
  })

  it('a slow server is waited for, with or without a terminal', async () => {
    await using own = await startServer()
    const slow = 'trap "sleep 6; kill \\$!; exit 0" TERM; echo ready; sleep 1000 & wait'
    const run = startEbb(['run', 'command', '--grace', '20s', '--', 'sh', '-c', slow], { home: own.home })
    await run.says('ready')
    run.signal('SIGHUP')
    expect(await run.ended).toMatchObject({ code: 130 })
    expect(await own.get('/api/agents')).toEqual([])
  })

  it('the death of the server is reported, and what it means for the agent', async () => {
    const own = await startServer()
    const run = startEbb(['run', 'command', ...ready], { home: own.home })
    await run.says('ready')
    own.ebb.signal('SIGKILL')
    await own.ebb.ended
    expect(await run.ended).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/The state of the agent [0-9a-f-]{36} is unknown.*ended with it.*"ebb recover"/),
    })
    await waitUntil(() => survivors(own.ebb.mark).length === 0, 30_000, 'the sentinel has ended the agent')
  })
})

it('ebb run: three signals at once end it, and nothing of the agent is left', async () => {
  const home = temporaryHome()
  const stubborn = 'trap "" TERM INT; echo ready; while :; do sleep 1000; done'
  const run = startEbb(['run', 'command', '--grace', '10m', '--', 'sh', '-c', stubborn], { home })
  await run.says('ready')
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGQUIT'] as const) run.signal(signal)
  // The exit code is 3 or 130, because the forced stop may end before the third signal arrives.
  expect([3, 130]).toContain((await run.ended).code)
  await waitUntil(() => survivors(run.mark), 30_000, 'everything is gone')
  await waitUntil(() => openBooks(home), 30_000, 'the ledger is closed')
})

describe('ebb run: during the launch', () => {
  it('Ctrl-C stops the agent as soon as it has started', async () => {
    await using held = await heldServer()
    await using terminal = await Terminal.open({ EBB_HOME: temporaryHome(), E: ebbProgram, EBB_URL: held.url })
    terminal.type('$E run command -- true; echo "code $?"')
    const launch = await held.call('POST /api/agents')
    terminal.press('C-c')
    await terminal.shows('stopping as soon as it has started (again to exit)')
    launch.answer(201, { id: held.id })
    await held.call(`POST /api/agents/${held.id}/stop`)
    await terminal.shows('stopping… (again to force)')
    terminal.press('C-c')
    await terminal.shows('forcing…')
    terminal.press('C-c')
    await terminal.shows('code 3')
  })

  it('a second Ctrl-C leaves and says that the launch may still happen', async () => {
    await using held = await heldServer()
    await using terminal = await Terminal.open({ EBB_HOME: temporaryHome(), E: ebbProgram, EBB_URL: held.url })
    terminal.type('$E run command -- true; echo "code $?"')
    await held.call('POST /api/agents')
    terminal.press('C-c')
    await terminal.shows('stopping as soon as it has started (again to exit)')
    terminal.press('C-c')
    await terminal.shows(/does not answer; the launch may\s+still\s+happen there[\s\S]*code 3/)
  })
})

it('ebb run: output during the stop stays on the screen', async () => {
  await using held = await heldServer()
  await using terminal = await Terminal.open({ EBB_HOME: temporaryHome(), E: ebbProgram, EBB_URL: held.url })
  terminal.type('clear; $E run command -- true; echo "code $?"')
  ;(await held.call('POST /api/agents')).answer(201, { id: held.id })
  held.say('one two three ')
  await terminal.shows('⏺ one two')
  terminal.press('C-c')
  await terminal.shows('stopping… (again to force)')
  // The status line appears after a second in which the agent prints nothing.
  await terminal.shows(/… stopping; Ctrl-C again forces it \(\d+ s\)/)
  held.say('four five six ')
  await terminal.shows('⏺ four five')
  await held.polls(12)
  held.say('seven eight ')
  await terminal.shows(/^⏺ four five six seven/m)
  expect(terminal.screen()).not.toContain('… stopping; Ctrl-C')
  terminal.press('C-c')
  await terminal.shows('forcing…')
  terminal.press('C-c')
  await terminal.shows('code 3')
})

it("ebb run: after the agent's end a signal ends a run that waits for its reader, and claims nothing", async () => {
  const [home, file] = [temporaryHome(), join(temporaryHome(), 'pid')]
  await using terminal = await Terminal.open({ EBB_HOME: home, E: ebbProgram, F: file })
  const agent = 'sh -c \'echo $$ > $F; exec $E run command hi -- sh -c "seq 1 30000; touch $F.said; sleep 1000"\''
  terminal.type(`${agent} | sh -c 'trap "" INT; exec sleep 1000'`)
  // The agent prints more than a pipe holds, so `ebb run` waits for its reader.
  await waitUntil(() => existsSync(`${file}.said`), 15_000, 'the agent has printed everything')
  terminal.press('C-c')
  await terminal.shows('stopping the agent')
  await waitUntil(() => openBooks(home).length === 0, 15_000, 'the agent has ended')
  const pid = Number(readFileSync(file, 'utf8'))
  const isGone = (): boolean => {
    terminal.press('C-c')
    return seen(pid) === undefined
  }
  await waitUntil(isGone, 15_000, 'ebb run has exited')
  expect(terminal.screen()).not.toMatch(/could not be stopped|forcing it/)
})

it.each(['the server', 'an engine of its own'])('ebb run: a full disk is reported, with exit code 1, on %s', async (where) => {
  await using own = where === 'the server' ? await startServer() : undefined
  const through = ['sh', '-c', '"$@" > /dev/full', 'sh']
  const ended = await ebb(['run', 'command', ...ready], { home: own?.home ?? temporaryHome(), through })
  expect(ended).toMatchObject({ code: 1, stderr: expect.stringMatching(/^ebb: The output could not be written \(.*ENOSPC.*\)/m) })
})

it('ebb run: messages of the engine get a line of their own', async () => {
  const home = temporaryHome()
  await using terminal = await Terminal.open({ EBB_HOME: home, E: ebbProgram })
  terminal.type(`$E run command hi --keep --grace 3s -- sh -c 'trap "" TERM; echo ready; while :; do sleep 1000; done'; echo "code $?"`)
  await terminal.shows(/^ready$/m)
  const archive = join(home, 'archive')
  rmdirSync(archive)
  writeFileSync(archive, '')
  terminal.press('C-c')
  await terminal.shows(/… stopping; Ctrl-C again forces it \(\d+ s\)/)
  await terminal.shows('code 3')
  expect(terminal.written()).toMatch(/^ebb warn: /m)
  expect(terminal.written()).not.toMatch(/ s\) *ebb /)
  unlinkSync(archive)
  // The terminal's shell has EBB_HOME in its environment, so it counts as a process of the home.
  await terminal.close()
  await waitUntil(() => processesOfHome(home, installationOf(home)).map(describeProcess), 30_000, 'the sentinel has finished')
  expect(await ebb(['recover'], { home })).toMatchObject({ code: 0 })
})
