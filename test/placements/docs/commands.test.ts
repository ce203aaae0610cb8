import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { image, startDockerd } from '../../support/docker.ts'
import { root } from '../../support/home.ts'
import { commandsOf, PageReader } from '../../support/page-reader.ts'
import { needs } from '../../support/real.ts'

needs('tmux', 'docker')

const guide = readdirSync(join(root, 'docs', 'guide')).map((name) => join('docs', 'guide', name))
const reference = ['docs/reference/cli.md', 'docs/reference/metrics.md']

/** `ebb doctor --fix` is not run: it would end processes of this machine. The tests of the doctor run it in isolation. */
const isForTheDoctor = (command: string): boolean => command.includes('--fix')

it('docs: the guide has six pages', () => {
  expect(guide.map((page) => page.replace(/.*\//, '')).toSorted()).toEqual([
    'docker-and-aws.md',
    'many-hosts.md',
    'mcp.md',
    'start.md',
    'stop-and-prove.md',
    'testing.md',
  ])
})

for (const page of [...guide, ...reference])
  it(`docs: every command in ${page} works as shown`, { timeout: 300_000 }, async () => {
    const commands = commandsOf(page).filter((command) => !isForTheDoctor(command))
    expect(commands.length).toBeGreaterThan(0)
    const isDocker = commands.some((command) => command.includes('docker'))
    const daemon = isDocker ? await startDockerd() : undefined
    try {
      daemon?.docker('tag', image, 'node:24-slim')
      await using reader = new PageReader(daemon && { DOCKER_HOST: daemon.host })
      const failed: unknown[] = []
      for (const command of commands) {
        const typed = await reader.type(command)
        if (typed.code !== 0) failed.push({ command, ...typed })
      }
      expect(failed).toEqual([])
    } finally {
      await daemon?.end()
    }
  })
