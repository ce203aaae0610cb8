import { readdirSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { hookOn } from '../../support/hooked.ts'
import { needs } from '../../support/real.ts'
import { openSupervisor, type TestSupervisor } from '../../support/supervisor.ts'
import { waitUntil } from '../../support/world.ts'

/** The standard input of a command. Programs read it by descriptor 0 and by the name /dev/stdin. */

const text = `${'a line of a long prompt\n'.repeat(20_000)}the last one`

async function readBy(supervisor: TestSupervisor, argv: readonly string[]): Promise<string> {
  const run = await supervisor.run(argv, { stdin: { text } })
  expect(await run.tree.exit).toEqual({ code: 0, signal: null })
  run.stdout.done()
  run.stderr.done()
  expect(await supervisor.engine.close(run.scope.id, { trigger: 'completed' })).toMatchObject({ success: true })
  return readFileSync(run.stdout.archive, 'utf8')
}

describe.each(['cgroup', 'subreaper', 'scan'] as const)('standard input under %s', (containment) => {
  needs(containment)

  it.each([['cat'], ['cat', '/dev/stdin'], [process.execPath, '-e', 'process.stdout.write(require("fs").readFileSync("/dev/stdin"))']])(
    'is read by %s %s',
    async (...argv) => {
      await using supervisor = await openSupervisor({ watched: false, flags: { containment } })
      expect(await readBy(supervisor, argv)).toBe(text)
    },
  )

  it('is a pipe when unnamed files are not available', async () => {
    const wrap = hookOn('effects', (method) => {
      if (method === 'openText') throw new Error('EOPNOTSUPP')
    })
    await using supervisor = await openSupervisor({ watched: false, flags: { containment }, wrap })
    expect(await readBy(supervisor, ['cat'])).toBe(text)
  })
})

it('standard input: no descriptor is left when the program cannot be started', async () => {
  const descriptors = (): number => readdirSync('/proc/self/fd').length
  await using supervisor = await openSupervisor({ watched: false })
  await supervisor.engine.begin()
  const before = descriptors()
  await expect(supervisor.run(['/bin/cat', 'x'.repeat(200_000)], { stdin: { text } })).rejects.toThrow(/E2BIG/)
  // The write of CgroupKnock may still run, with its own descriptor.
  await waitUntil(() => descriptors() === before, 5_000, 'no descriptor is left')
})
