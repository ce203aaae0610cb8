import { chmodSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { nodeProgram, temporaryHome } from '../support/home.ts'
import { needs } from '../support/real.ts'
import { startServer, type TestServer } from '../support/server.ts'
import { reviewScreenshot, screenshot, useBrowser } from './support.ts'

/** Makes screenshots for the README with `EBB_SCREENSHOTS=docs/images`. Fake agent programs print what the real ones print. */

needs('tmux')
const browser = useBrowser()

const said = (content: readonly object[], role = 'assistant'): object => ({ type: role, message: { role, content } })
const uses = (id: string, name: string, input: object): object => ({ type: 'tool_use', id, name, input })
const answers = (id: string, content: string, isError = false): object => ({
  type: 'tool_result',
  tool_use_id: id,
  content,
  is_error: isError,
})

const conversation = [
  { type: 'system', subtype: 'init', cwd: '/srv/harbour', model: 'claude-opus', tools: ['Bash', 'Edit', 'Read'] },
  said([{ type: 'text', text: 'I run the failing test first, to see it fail with my own eyes.' }]),
  said([uses('1', 'Bash', { command: 'npx vitest run test/reconnect.test.ts' })]),
  said([answers('1', 'FAIL  a client that comes back has every message once\nexpected 41 to be 42', true)], 'user'),
  said([{ type: 'text', text: 'One message is lost between the replay and the live stream. I look at how a subscription begins.' }]),
  said([uses('2', 'Read', { file_path: '/srv/harbour/src/subscription.ts' })]),
  said([answers('2', 'export class Subscription {\n  …')], 'user'),
  said([uses('3', 'Edit', { file_path: '/srv/harbour/src/subscription.ts' })]),
  said([answers('3', 'The file was changed.')], 'user'),
  said([uses('4', 'Bash', { command: 'npx vitest run test/reconnect.test.ts' })]),
  said([answers('4', 'Tests  12 passed (12)')], 'user'),
  said([
    {
      type: 'text',
      text: 'Fixed. What was saved while the agent was looked up is now read from the store, too, so nothing falls between the two. All 12 tests pass; I keep them running in watch mode.',
    },
  ]),
]

/** Writes a fake agent program of that name. It prints the lines and then runs the JavaScript in `rest`. */
function program(folder: string, name: string, lines: readonly object[], rest: string): void {
  const path = join(folder, name)
  const script = `if (process.argv.includes('--version')) { console.log('2.1.0'); process.exit() }
    for (const line of ${JSON.stringify(lines.map((line) => JSON.stringify(line)))}) console.log(line)
    ${rest}`
  writeFileSync(`${path}.cjs`, script)
  writeFileSync(path, `#!/bin/sh\nexec '${nodeProgram}' '${path}.cjs' "$@"\n`)
  chmodSync(path, 0o755)
}

const watches = `require('node:child_process').spawn('sh', ['-c', 'sleep 1000 & sleep 1000'], { stdio: 'ignore' }); setInterval(() => {}, 100_000)`
const waits = 'setInterval(() => {}, 100_000)'

async function launchAll(server: TestServer): Promise<{ readonly watching: string }> {
  const launch = (type: string, prompt: string, more: object = {}): Promise<string> => server.launch({ type, prompt, ...more })
  const say = (content: string): object => ({ delay: 10, type: 'message', data: { content } })
  await launch('synthetic', 'Play the scripted conversation', {
    configuration: { schedule: [say('Done.'), { delay: 20, type: 'complete' }] },
  })
  await launch('gemini-cli', 'Write the release notes for 2.4')
  await server.command(['sh', '-c', 'echo "error: no such target: staging" >&2; exit 2'], {
    prompt: 'Deploy the preview',
    requestId: 'pull-812',
  })
  await launch('codex', 'Upgrade TypeScript to 7 and mend what breaks', { placement: 'tmux' })
  await server.command(['sh', '-c', 'seq 1 40; sleep 1000'], { prompt: 'Build everything', requestId: 'pull-812' })
  await launch('opencode', 'Find out why the build takes nine minutes', { namespace: 'night' })
  return { watching: await launch('claude-code', 'Fix the reconnect test that fails once in forty runs') }
}

it('screenshots: the list shows agents of all providers, and a stopped one shows its proofs', async () => {
  const folder = temporaryHome()
  program(folder, 'claude', conversation, watches)
  program(folder, 'codex', [{ type: 'thread.started', thread_id: 'one' }, { type: 'turn.started' }], watches)
  program(folder, 'gemini', [{ type: 'init' }, { type: 'message', role: 'assistant', content: 'The notes are in NOTES.md.' }], '')
  program(folder, 'opencode', [{ type: 'text', part: { type: 'text', text: 'I measure each step.' } }], waits)
  await using server = await startServer([], { env: { PATH: `${folder}:${process.env.PATH}` } })
  const { watching } = await launchAll(server)
  const page = await browser.open(server)
  const row = (text: string) => page.getByRole('table', { name: 'Agents' }).locator('tbody tr').filter({ hasText: text })
  await expect.poll(() => page.getByRole('table', { name: 'Agents' }).locator('tbody tr').count()).toBe(7)
  await row('release notes').getByText('completed').waitFor()
  await row('Deploy the preview').getByText('failed').waitFor()
  await row('scripted conversation').getByText('completed').waitFor()
  for (const text of ['reconnect test', 'nine minutes', 'Upgrade TypeScript'])
    await expect.poll(() => row(text).textContent()).toMatch(/running.*\d MB/)
  await expect.poll(() => row('reconnect test').locator('td').nth(5).textContent()).toBe('13')
  await screenshot(page, 'agents')

  await row('reconnect test').getByRole('link').click()
  await page.getByText('Fixed. What was saved').waitFor()
  await page.getByRole('button', { name: 'Start', exact: true }).click()
  await page
    .getByRole('button', { name: /Bash: npx vitest/ })
    .first()
    .waitFor()
  expect(await page.locator('.message--failure').count()).toBe(1)
  await page.getByRole('region', { name: 'Processes' }).getByText('4 processes').waitFor()
  await reviewScreenshot(page, 'agent-running')
  await page.getByRole('button', { name: 'Stop', exact: true }).click()
  await page.getByRole('button', { name: 'Stop agent' }).click()
  await page
    .getByRole('region', { name: 'Resources' })
    .getByText(/all \d+ verified gone/)
    .waitFor()
  await page.getByRole('button', { name: 'Dismiss' }).click()
  await screenshot(page, 'agent')
  expect((await server.get(`/api/agents/${watching}`)).status).toBe('terminated')
  await page.close()
})
