import { readdirSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { hookOn } from '../../support/hooked.ts'
import { needs } from '../../support/real.ts'
import { openSupervisor, type TestSupervisor } from '../../support/supervisor.ts'

/** What a command is given to read. Programs read their standard input by its number and by its name. */

const text = `${'a line of a long prompt\n'.repeat(20_000)}the last one`

async function readBy(supervisor: TestSupervisor, argv: readonly string[]): Promise<string> {
  const run = await supervisor.run(argv, { stdin: { text } })
  expect(await run.tree.exit).toEqual({ code: 0, signal: null })
  run.stdout.done()
  run.stderr.done()
  expect(await supervisor.engine.close(run.scope.id, { trigger: 'completed' })).toMatchObject({ success: true })
  return readFileSync(run.stdout.archive, 'utf8')
}

describe.each(['cgroup', 'subreaper', 'scan'] as const)('a text under %s', (containment) => {
  needs(containment)

  it.each([['cat'], ['cat', '/dev/stdin'], [process.execPath, '-e', 'process.stdout.write(require("fs").readFileSync("/dev/stdin"))']])(
    'is read by %s %s',
    async (...argv) => {
      await using supervisor = await openSupervisor({ watched: false, flags: { containment } })
      expect(await readBy(supervisor, argv)).toBe(text)
    },
  )

  it('comes through a pipe where a file without a name cannot be had', async () => {
    const wrap = hookOn('effects', (method) => {
      if (method === 'openText') throw new Error('EOPNOTSUPP')
    })
    await using supervisor = await openSupervisor({ watched: false, flags: { containment }, wrap })
    expect(await readBy(supervisor, ['cat'])).toBe(text)
  })
})

it('leaves no descriptor behind, also when the program cannot be started', async () => {
  const descriptors = (): number => readdirSync('/proc/self/fd').length
  await using supervisor = await openSupervisor({ watched: false })
  await supervisor.engine.begin()
  const before = descriptors()
  await expect(supervisor.run(['/bin/cat', 'x'.repeat(200_000)], { stdin: { text } })).rejects.toThrow(/E2BIG/)
  expect(descriptors()).toBe(before)
})
