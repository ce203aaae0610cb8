import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { root } from '../../support/home.ts'
import { startServer } from '../../support/server.ts'

it('README: the commands launch an agent, read its messages, and clean up', async () => {
  const [, lines = ''] = /```sh\n([\s\S]*?)```/.exec(readFileSync(join(root, 'README.md'), 'utf8')) ?? []
  expect(lines).toContain('curl')
  await using server = await startServer()
  const script = lines.replaceAll('localhost:4400', new URL(server.url).host).replaceAll(/^(curl .*)$/gm, '$1\necho')
  const { stdout, stderr, status } = spawnSync('sh', ['-eu', '-c', script], { encoding: 'utf8', timeout: 30_000 })
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
  const [ended, messages, report, state, ...rest] = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
  expect(ended).toMatchObject({ status: 'completed' })
  expect(messages[0]).toMatchObject({ sequenceNumber: 1, type: 'user', content: 'hello' })
  expect(messages.length).toBeGreaterThan(1)
  expect(report).toMatchObject({ success: true, cleanedAgentsCount: 1, cleanedMessagesCount: messages.length })
  expect(state).toMatchObject({ isClean: true })
  expect(rest).toEqual([])
})
