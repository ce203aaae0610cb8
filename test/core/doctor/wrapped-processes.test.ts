import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { readTable } from '../../../src/doctor/search/proc-facts.ts'
import { endProcesses } from '../../../src/doctor/search/process-end.ts'
import { realClock } from '../../../src/host/clock.ts'
import { realEffects } from '../../../src/host/effects.ts'
import { Garden, watch } from '../../support/leftovers.ts'
import { needs } from '../../support/real.ts'
import { seen, survivors, waitUntil } from '../../support/world.ts'
import { found, ofPid, open } from './looks.ts'

/** Agents and MCP servers below an orphaned wrapper, such as `sh -c` or `timeout`. */

async function wrapped(garden: Garden, words: readonly string[], command: string): Promise<number> {
  const pid = await garden.orphan(words)
  await waitUntil(() => survivors(garden.mark).some((one) => one.command === command), 20_000, `${command} runs`)
  return pid
}

describe('doctor: an orphaned wrapper', () => {
  needs('gcc')

  const cases: readonly (readonly [kind: string, command: string, words: (program: string) => readonly string[]])[] = [
    ['agent', 'claude', (claude) => ['bash', '-c', `${claude} -p x; echo done`]],
    ['agent', 'claude', (claude) => ['/bin/sh', '-c', `${claude} -p x; echo done`]],
    ['agent', 'claude', (claude) => ['timeout', '3600', claude, '-p']],
    ['agent', 'claude', (claude) => ['bash', '-c', `while :; do timeout 60 ${claude}; done`]],
    ['mcp-server', 'mcp-server-git', (server) => ['bash', '-c', `${server}; :`]],
  ]
  for (const [kind, command, words] of cases) {
    it(`${words(command).join(' ')} is a leftover with the ${kind} below it, and both are ended`, async () => {
      await using garden = new Garden()
      const pid = await wrapped(garden, words(garden.program(command)), command)
      const one = ofPid(await found(garden), pid)
      expect(one).toMatchObject({ kind, fixes: true })
      expect(one?.processes.length).toBeGreaterThan(1)
      const leftovers = open(garden)
      expect(await leftovers.end((await leftovers.find()).leftovers)).toMatchObject([{ outcome: 'gone' }])
      expect(survivors(garden.mark)).toEqual([])
    })
  }

  it('is perhaps in use when the agent below it writes to a file or to a process that the wrapper started', async () => {
    await using garden = new Garden()
    const log = join(garden.folder, 'log')
    const program = garden.program('claude')
    for (const line of [`${program} >${log}; :`, `${program} | tee ${log}; :`]) {
      const pid = await wrapped(garden, ['bash', '-c', line], 'claude')
      await expect.poll(async () => ofPid(await found(garden), pid)?.sure, { timeout: 20_000 }).toBe('perhaps')
      const isThere = watch(pid)
      const leftovers = open(garden)
      expect(await leftovers.end((await leftovers.find()).leftovers)).toEqual([])
      expect(isThere()).toBe(true)
    }
  })

  it('finds no leftover when the program is an editor, runs by `npm run`, or has a parent that is not a wrapper', async () => {
    await using garden = new Garden()
    await wrapped(garden, ['bash', '-c', `${garden.program('vim')} claude; :`], 'vim')
    await wrapped(garden, ['bash', '-c', `exec -a npm bash -c '${garden.program('foo-mcp')}; :' run dev`], 'foo-mcp')
    await wrapped(garden, [garden.script('my-supervisor', `${garden.program('claude')}; :`)], 'claude')
    expect(await found(garden)).toEqual([])
  })
})

describe('doctor: ending an agent', () => {
  needs('gcc')

  it('leaves processes of the same session alone that may be in use, belong to an Ebb or are unknown', async () => {
    await using garden = new Garden()
    const listens = "require('node:net').createServer().listen(0,'127.0.0.1',()=>{process.title='listens'})"
    const body = [
      `(CLAUDECODE=1 ${process.execPath} -e "${listens}" &)`,
      `(CLAUDECODE=1 ${garden.program('trains')} >${join(garden.folder, 'train.log')} &)`,
      `(EBB_SCOPE=a/b/c.1 ${garden.program('ebbs')} &)`,
      `(${garden.program('stranger')} &)`,
      'sleep 10000; :',
    ]
    const shell = 'exec 3>&1; { setsid "$@" </dev/null 2>/dev/null 3>&- & echo $! >&3; } | true'
    const pid = await garden.orphan([garden.script('claude', body.join('\n'))], { shell })
    const others = ['listens', 'trains', 'ebbs', 'stranger']
    const of = (command: string) => survivors(garden.mark).find((one) => one.command === command)
    await waitUntil(() => [...others, 'sleep'].every(of), 20_000, 'all of them run')
    const watched = others.map((command) => watch(of(command)?.pid ?? 0))
    const leftovers = open(garden, 300)
    const shown = (await leftovers.find()).leftovers
    expect(ofPid(shown, pid)).toMatchObject({ sure: 'likely', fixes: true })
    expect(ofPid(shown, pid)?.processes).toHaveLength(2)
    expect(await leftovers.end(shown)).toMatchObject([{ outcome: 'gone' }])
    expect(watched.map((isThere) => isThere())).toEqual([true, true, true, true])
  })

  it('leaves a younger foreign process alone that has the same parent, command line and environment (G10)', async () => {
    await using garden = new Garden()
    const words = [garden.script('claude', `trap '' TERM; sleep 10000; :`)]
    const pid = await wrapped(garden, words, 'sleep')
    const first = survivors(garden.mark).map(({ pid, startTime }) => ({ pid, startTime }))
    let scans = 0
    let twin = 0
    const readTableWithTwin = async (): ReturnType<typeof readTable> => {
      scans += 1
      if (scans === 2) twin = await garden.orphan(words)
      return await readTable()
    }
    const ending = { clock: realClock, effects: realEffects, readTable: readTableWithTwin, graceMs: 1_500, killMs: 5_000, spared: [] }
    expect(await endProcesses(first, ending)).toMatchObject({ outcome: 'gone', steps: [{ step: 'terminate' }, { step: 'kill' }] })
    expect([seen(pid), seen(twin)?.pid]).toEqual([undefined, twin])
  })

  it('leaves a descendant alone that may be in use', async () => {
    await using garden = new Garden()
    const pid = await wrapped(garden, [garden.script('claude')], 'sleep')
    const first = survivors(garden.mark).map(({ pid, startTime }) => ({ pid, startTime }))
    const spared = first.filter((one) => one.pid !== pid)
    expect(spared).toHaveLength(1)
    const isThere = watch(spared[0]?.pid ?? 0)
    const ending = { clock: realClock, effects: realEffects, readTable, graceMs: 300, killMs: 5_000, spared }
    expect(await endProcesses(first, ending)).toMatchObject({ outcome: 'gone' })
    expect([seen(pid), isThere()]).toEqual([undefined, true])
  })
})
