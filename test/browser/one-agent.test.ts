import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Locator, Page } from 'playwright-core'
import { describe, expect, it } from 'vitest'
import type { Json } from '../support/server.ts'
import { agentProcesses, useServer } from '../support/shared-server.ts'
import { isInSight, patient, requireNoSidewaysScroll, reviewScreenshot, seriousViolations, useBrowser } from './support.ts'

const server = useServer()
const browser = useBrowser()

const button = (page: Page, name: string) => page.getByRole('button', { name, exact: true })
const fact = (page: Page, name: string) => page.locator('.agent-facts > div').filter({ hasText: name })

/** A schedule with every kind of message. The agent then keeps running. */
const everyKind = [
  { type: 'system', content: 'Session started in /srv/harbour' },
  { content: 'I list the folder, and then run the tests.' },
  { type: 'tool', content: 'Bash: ls -la /srv/harbour\ntotal 12\ndrwxr-xr-x 2 root root 4096 quay', metadata: { tool: 'Bash' } },
  { type: 'tool', content: 'exit code 1: no such file', metadata: { tool: 'Read', isError: true } },
  { content: 'The quay is there, the breakwater is not. I make it.', metadata: { thinking: true } },
  { type: 'response', content: 'Tests  212 passed, 0 failed' },
  { type: 'error', content: 'warning: the cache is stale', metadata: { stream: 'stderr' } },
  { content: 'Everything passes. Three files were changed:\n\n  quay.ts\n  breakwater.ts\n  quay.test.ts' },
].map((data, index) => ({ delay: 20 + index, type: 'message', data }))

describe('agent page', () => {
  it('agent page: an agent launched from the form shows its output live, and Undo deletes it', async () => {
    const page = await browser.open(server)
    await button(page, 'Launch an agent').click()
    await page.getByRole('radio', { name: /^Command/ }).check()
    await page.getByLabel('Command', { exact: true }).fill(`sh -c 'echo first; read line; echo "heard $line"; sleep 1000'`)
    await page.getByLabel('Prompt', { exact: true }).fill('a word on its standard input\n')
    await page.getByLabel('Name', { exact: true }).fill('The listener')
    await reviewScreenshot(page, 'launch')
    await button(page, 'Launch').click()
    // A toast stays while the pointer is over it.
    await button(page, 'Undo: stop and delete').hover()
    await page.getByRole('heading', { level: 1, name: 'The listener' }).waitFor()
    await page.getByText('heard a word on its standard input').waitFor()
    await fact(page, 'Status').getByText('running').waitFor()
    await page.getByRole('region', { name: 'Processes' }).getByText('sleep').first().waitFor()
    expect(await page.title()).toBe('The listener · running · Ebb')
    await button(page, 'Undo: stop and delete').click()
    await page.getByText('Stopped and deleted. Nothing of the agent is left.').waitFor()
    await page.getByRole('heading', { level: 1, name: 'Agents' }).waitFor()
    expect(await server.get('/api/agents')).toEqual([])
    expect(agentProcesses(server.home)).toEqual([])
  })

  it('agent page: a refused launch shows the problem beside the invalid field', async () => {
    const page = await browser.open(server, '#/agents', { allows: [/400/] })
    await button(page, 'Launch an agent').click()
    await button(page, 'Launch').click()
    await page.getByText('Choose what to launch.').waitFor()
    await page.getByRole('radio', { name: /^Command/ }).check()
    await page.getByLabel('Command', { exact: true }).fill(`sh -c 'no end`)
    await page.getByText('A quote is not closed.').waitFor()
    await page.getByLabel('Command', { exact: true }).fill('/there/is/no/such/program')
    await page.getByLabel('Working directory').fill('not/absolute')
    await page.getByText('Enter an absolute path on the server machine').waitFor()
    await page.getByLabel('Working directory').fill('')
    await page.getByLabel('Request id').fill('no blanks allowed / here')
    await button(page, 'Launch').click()
    const problem = page.locator('.field', { hasText: 'Request id' }).locator('.field__problem')
    await problem.waitFor()
    await page.getByLabel('Request id').fill('')
    await button(page, 'Launch').click()
    await page.getByRole('alert').filter({ hasText: '/there/is/no/such/program' }).waitFor()
    expect(await server.get('/api/agents')).toEqual([])
  })

  it('agent page: after a stop it shows the proof that everything is gone', async () => {
    const id = await server.command(['sh', '-c', 'sleep 1000 & echo ready; wait'], { prompt: 'Wait for input' })
    const page = await browser.open(server, `#/agents/${id}`)
    await page.getByRole('feed').getByText('ready').waitFor()
    await button(page, 'Stop').click()
    const dialog = page.getByRole('dialog', { name: 'Stop this agent?' })
    expect(await dialog.textContent()).toContain('a stopped agent cannot be resumed')
    await button(page, 'Stop agent').click()
    await fact(page, 'Status').getByText('terminated').waitFor()
    await page.getByText(/Stopped in .+ verified gone/).waitFor()
    const resources = page.getByRole('region', { name: 'Resources' })
    await resources.getByText(/all \d+ verified gone/).waitFor()
    expect(await resources.textContent()).toMatch(/Verified gone by the kernel at .+: cgroup removed/)
    await page.getByRole('region', { name: 'Processes' }).getByText('No running processes.').waitFor()
    expect(agentProcesses(server.home)).toEqual([])
    await button(page, 'Launch again').click()
    expect(await page.getByLabel('Prompt', { exact: true }).inputValue()).toBe('Wait for input')
  })

  it('agent page: dialogs show the current number of messages', async () => {
    const go = join(server.home, 'go-count')
    const script = 'echo first; until [ -e "$0" ]; do sleep 0.05; done; seq 1 8; sleep 1000'
    const id = await server.command(['sh', '-c', script, go], { prompt: 'Count' })
    const page = await browser.open(server, `#/agents/${id}`)
    await page.getByText('first', { exact: true }).waitFor()
    writeFileSync(go, '')
    await page.getByText('8', { exact: true }).waitFor()
    await expect.poll(() => page.locator('.conversation__count').textContent(), patient).toBe('10')
    for (const name of ['Stop', 'Force stop', 'Delete']) {
      await button(page, name).click()
      await page.getByRole('dialog').getByText('its 10 messages').waitFor()
      await page.keyboard.press('Escape')
    }
  })

  it('agent page: an agent that ignores signals is stopped by force and deleted', async () => {
    const id = await server.command(['sh', '-c', `trap '' TERM INT HUP; echo ready; while :; do sleep 1000; done`])
    const page = await browser.open(server, `#/agents/${id}`)
    await page.getByText('ready', { exact: true }).waitFor()
    await button(page, 'Force stop').click()
    await page.getByRole('dialog').getByRole('button', { name: 'Force stop' }).click()
    await fact(page, 'Status').getByText('terminated').waitFor()
    await button(page, 'Delete').click()
    expect(await page.getByRole('dialog').textContent()).toContain('Not possible: a deleted agent cannot be restored.')
    await button(page, 'Delete agent').click()
    await page.getByText('Deleted. Nothing of the agent is left.').waitFor()
    await page.getByRole('heading', { level: 1, name: 'Agents' }).waitFor()
  })

  it('agent page: a stop that fails lists what is left, and can be retried', async () => {
    const id = await server.command(['sh', '-c', 'touch "$TMPDIR/file"; chattr +i "$TMPDIR/file"; echo "$TMPDIR"; exec sleep 1000'])
    const page = await browser.open(server, `#/agents/${id}`, { allows: [/409/] })
    const folder = (await page.locator('.message--response .message__text').first().textContent()) ?? ''
    try {
      await button(page, 'Stop').click()
      await button(page, 'Stop agent').click()
      const problem = page.getByRole('dialog').getByRole('alert')
      await problem.getByText('Some resources are not gone.').waitFor({ timeout: 40_000 })
      expect(await problem.textContent()).toContain(`Temp folder ${folder}`)
      await expect.poll(() => fact(page, 'Status').textContent(), patient).toBe('Statusstuck')
      const processes = page.locator('section[aria-label="Processes"]')
      await expect
        .poll(() => processes.textContent(), patient)
        .toMatch(/No running processes on this host\. .+ under Resources\.Checked at /)
      expect(await fact(page, 'Runs for').count()).toBe(0)
    } finally {
      execFileSync('chattr', ['-i', `${folder}/file`])
    }
    await button(page, 'Try again').click()
    await fact(page, 'Status').getByText('terminated').waitFor()
  })

  it('agent page: shows every kind of message, with tools folded until opened by keyboard', async () => {
    const id = await server.launch({ type: 'synthetic', prompt: 'Mend the breakwater', configuration: { schedule: everyKind } })
    const page = await browser.open(server, `#/agents/${id}`)
    await page.getByText('Everything passes.').waitFor()
    const processes = page.getByRole('region', { name: 'Processes' })
    await processes.getByText('This agent has no running process on this host.').waitFor()
    expect(await processes.textContent()).not.toContain('Contained by')
    expect(await page.getByText('drwxr-xr-x').count()).toBe(0)
    const fold = page.getByRole('button', { name: /Bash: ls -la/ })
    await fold.focus()
    await page.keyboard.press('Enter')
    await page.getByText('drwxr-xr-x').waitFor()
    expect(await fold.getAttribute('aria-expanded')).toBe('true')
    await page.keyboard.press('Enter')
    await expect.poll(() => page.getByText('drwxr-xr-x').count(), patient).toBe(0)
    expect(await page.locator('.message--failure').count()).toBe(2)
  })

  it('agent page: fragments of a streamed message are joined into one text', async () => {
    const words = Array.from({ length: 130 }, (_, index) => `word${index} `).join('')
    const pieces = words.match(/.{1,4}/g) ?? []
    const messages = [
      ...['I wi', 'll s', 'tart', '.\n\nN', 'ow.'].map((content) => ({ content, metadata: { delta: true } })),
      { type: 'tool', content: 'Bash: ls', metadata: { tool: 'Bash' } },
      ...pieces.map((content) => ({ content, metadata: { delta: true } })),
      { content: 'This is whole.' },
      { content: 'And so is this.' },
    ].map((data, index) => ({ delay: 20 + index, type: 'message', data }))
    const id = await server.launch({ type: 'synthetic', prompt: 'Tell me', configuration: { schedule: messages } })
    const page = await browser.open(server, `#/agents/${id}`)
    const texts = (): Promise<string[]> => page.locator('.message--assistant .message__text').allTextContents()
    await page.getByText('And so is this.').waitFor()
    await expect.poll(async () => (await texts()).slice(0, -2).join('').endsWith(words), patient).toBe(true)
    expect((await texts()).slice(-2)).toEqual(['This is whole.', 'And so is this.'])
    await button(page, 'Start').click()
    await expect.poll(async () => (await texts())[0], patient).toBe('I will start.\n\nNow.')
    await page.getByText('#2–6', { exact: true }).waitFor()
    await reviewScreenshot(page, 'agent-pieces')
    expect(await seriousViolations(page)).toEqual([])
  })

  it('agent page: shows the raw line of a message on demand', async () => {
    const id = await server.command(['sh', '-c', `echo '{"a":{"b":[1,2,3]}}'; sleep 1000`])
    const page = await browser.open(server, `#/agents/${id}`)
    await button(page, 'Show the raw line of message 2').click()
    await expect.poll(() => page.locator('.message__long').textContent(), patient).toBe(JSON.stringify({ a: { b: [1, 2, 3] } }, null, 2))
    await button(page, 'Hide the raw line of message 2').click()
    await expect.poll(() => page.locator('.message__long').count(), patient).toBe(0)
  })

  describe('opened message', () => {
    const top = async (element: Locator): Promise<number> => Math.round((await element.boundingBox())?.y ?? 0)
    // After two frames everything has been measured and drawn.
    const drawn = (page: Page): Promise<unknown> =>
      page.evaluate('new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))')

    it('opened message: keeps its position in a conversation that has ended', async () => {
      const output = Array.from({ length: 80 }, (_, line) => `line ${line}`).join('\n')
      const messages = [
        ...Array.from({ length: 40 }, (_, index) => ({ content: `Step ${index}` })),
        { type: 'tool', content: `Bash: ls\n${output}`, metadata: { tool: 'Bash' } },
        { content: 'This is the end.' },
      ].map((data, index) => ({ delay: 20 + index, type: 'message', data }))
      const schedule = [...messages, { delay: 100, type: 'complete', data: { success: true } }]
      const id = await server.launch({ type: 'synthetic', prompt: 'Look around', configuration: { schedule } })
      const page = await browser.open(server, `#/agents/${id}`)
      await fact(page, 'Status').getByText('completed').waitFor()
      await page.getByText('This is the end.').waitFor()
      const fold = page.getByRole('button', { name: /Bash: ls/ })
      await drawn(page)
      const before = await top(fold)
      await fold.click()
      await page.getByText('line 79').waitFor()
      await drawn(page)
      expect(await top(fold)).toBe(before)
    })

    it('opened message: keeps its position while the end was followed', async () => {
      const line = JSON.stringify({ many: Array.from({ length: 60 }, (_, index) => index) })
      const go = join(server.home, 'go-tell')
      const script = `seq 1 40; echo '${line}'; until [ -e "$0" ]; do sleep 0.05; done; echo 'This is news.'; sleep 1000`
      const id = await server.command(['sh', '-c', script, go])
      const page = await browser.open(server, `#/agents/${id}`)
      const raw = page.getByRole('button', { name: /raw line of message 42/ })
      await raw.waitFor()
      await drawn(page)
      const before = await top(raw)
      await raw.click()
      await page.locator('.message__long').waitFor()
      await drawn(page)
      expect(await top(raw)).toBe(before)
      writeFileSync(go, '')
      await button(page, '1 new ↓').waitFor()
      expect(await top(raw)).toBe(before)
      await button(page, '1 new ↓').click()
      await expect.poll(() => isInSight(page.getByText('This is news.')), patient).toBe(true)
    })
  })

  for (const colorScheme of ['light', 'dark'] as const)
    it(`agent page: no serious axe violations in ${colorScheme} mode, wide or narrow, dialog included`, async () => {
      const id = await server.command(['sh', '-c', `printf '%s\\n' one two; (sleep 1000 & sleep 1000 & wait) & sleep 1000`], {
        prompt: 'Keep the harbour open',
      })
      const page = await browser.open(server, `#/agents/${id}`, { colorScheme })
      await page.getByRole('feed').getByText('two').waitFor()
      await page.getByRole('region', { name: 'Resources' }).getByText('Process tree').waitFor()
      await reviewScreenshot(page, `agent-process-${colorScheme}`)
      expect(await seriousViolations(page)).toEqual([])
      await page.setViewportSize({ width: 390, height: 844 })
      await reviewScreenshot(page, `agent-narrow-${colorScheme}`)
      await requireNoSidewaysScroll(page)
      expect(await seriousViolations(page)).toEqual([])
      await button(page, 'Stop').click()
      await reviewScreenshot(page, `stop-narrow-${colorScheme}`)
      expect(await seriousViolations(page)).toEqual([])
      await requireNoSidewaysScroll(page)
    })

  it('agent page: shows the proofs of a stopped agent (makes screenshots)', async () => {
    const talk = `printf '%s\\n' '${JSON.stringify({ note: 'The quay is there, the breakwater is not.' })}' 'Tests  212 passed, 0 failed'; echo 'warning: the cache is stale' >&2; (sleep 900 & sleep 900)`
    const talking = await server.command(['sh', '-c', talk], { prompt: 'Run the tests of the harbour' })
    const said = await server.launch({ type: 'synthetic', prompt: 'Mend the breakwater', configuration: { schedule: everyKind } })
    const page = await browser.open(server, `#/agents/${said}`)
    await page.getByText('Everything passes.').waitFor()
    await reviewScreenshot(page, 'agent-conversation')
    await server.post(`/api/agents/${talking}/stop`, {})
    await page.goto(`${server.url}/#/agents/${talking}`)
    await page
      .getByRole('region', { name: 'Resources' })
      .getByText(/all \d+ verified gone/)
      .waitFor()
    await reviewScreenshot(page, 'agent')
    const resources = await server.get<Json[]>(`/api/agents/${talking}/resources`)
    expect(await page.locator('.resource__proof').count()).toBe(resources.length)
  })
})
