import { closeSync, constants, openSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { realEffects } from '../../../src/host/effects.ts'
import { openTasks } from '../../support/tasks.ts'

/** An agent can write in the workspace that contains its log, so it can replace the log. */

it.each(['a pipe', 'a link'])(
  'log replaced by its agent with %s: the agent is ended, and the log is held back and never read',
  async (what) => {
    await using bench = await openTasks()
    const task = await bench.create()
    const { agent } = await bench.deploy(task, { command: ['sh', '-c', 'echo one; exec sleep 1000'] })
    const log = join(task.workspace, 'logs', `${agent.name}_stream.jsonl`)
    const precious = join(bench.base, 'precious')
    writeFileSync(precious, 'two\nprecious\n')
    rmSync(log)
    if (what === 'a link') symlinkSync(precious, log)
    else await realEffects.makePipe(log)
    // The pipe has a writer, so that code that opens it by mistake does not block for ever.
    const writer = what === 'a pipe' ? openSync(log, constants.O_RDWR | constants.O_NONBLOCK) : undefined
    const heldBack = { outcome: 'held-back', error: expect.stringContaining(`The path ${log} is refused: it is not a file any more`) }
    for (const trigger of ['terminated', 'reaper'] as const) {
      const report = await bench.supervisor.engine.close(agent.id, { trigger })
      expect(report.resources.filter(({ name }) => name === log)).toMatchObject([heldBack])
      expect(report.resources.filter(({ kind }) => kind === 'process-tree').every(({ outcome }) => outcome === 'released')).toBe(true)
    }
    const contents = (await bench.supervisor.agents.messages(agent.id, 0, 100)).map(({ content }) => content)
    expect(contents.filter((text) => text === 'two' || text === 'precious')).toEqual([])
    if (writer !== undefined) closeSync(writer)
    rmSync(log)
    expect(await bench.supervisor.engine.close(agent.id, { trigger: 'reaper' })).toMatchObject({ success: true })
  },
)
