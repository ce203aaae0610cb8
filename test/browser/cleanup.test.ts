import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { describe, expect, it } from 'vitest'
import { duration } from '../../web/src/pieces/format.ts'
import { fixture } from '../support/fixtures.ts'
import { needs } from '../support/real.ts'
import { type Json, startServer } from '../support/server.ts'
import { useServer } from '../support/shared-server.ts'
import { launchStopped, launchUnstoppable, screenshot, seriousViolations, useBrowser } from './support.ts'

const server = useServer()
const browser = useBrowser()

const closes = (page: Page) => page.getByRole('table', { name: 'Closes' })
const stuckRegion = (page: Page) => page.getByRole('region', { name: 'Stuck resources' })

describe('close page', () => {
  it('close page: a running close is shown live, step by step, and then with its proofs', async () => {
    const page = await browser.open(server, '#/cleanup')
    await page.getByRole('heading', { name: 'No closes yet.' }).or(closes(page)).waitFor()
    const id = await launchUnstoppable(server)
    // The grace period of this stop outlasts all assertions below. A forced stop ends it early, so its result is not needed.
    const stopping = server.post(`/api/agents/${id}/stop`, { grace: 60_000 }).catch(() => {})
    await closes(page).getByText('in progress').waitFor()
    await closes(page)
      .getByRole('link', { name: `agent ${id.slice(0, 8)}` })
      .click()
    await page.getByRole('heading', { level: 1, name: `Close of agent ${id.slice(0, 8)}` }).waitFor()
    const open = page.locator('.bar-piece--terminate.bar-piece--open')
    await open.waitFor({ state: 'attached' })
    const tree = page.getByRole('row', { name: /Process tree/ })
    await tree.getByText('termination requested').first().waitFor()
    await page.getByRole('row', { name: /^Log/ }).first().getByText('waiting').first().waitFor()
    // The bar of an unfinished phase grows with the clock, without events.
    const widthOf = async (): Promise<number> => (await open.boundingBox())?.width ?? 0
    const before = await widthOf()
    await expect.poll(widthOf, { timeout: 30_000 }).toBeGreaterThan(before)
    // The text with the elapsed time grows with the clock as well.
    const clock = page.locator('.close__clock')
    const textBefore = await clock.textContent()
    await expect.poll(() => clock.textContent(), { timeout: 30_000 }).not.toBe(textBefore)
    const report = await server.post<Json>(`/api/agents/${id}/stop`, { force: true })
    await stopping
    await page.getByText('clean', { exact: true }).waitFor()
    await tree.getByText('released', { exact: true }).waitFor()
    const { proof, steps } = report.resources.find(({ kind }: Json) => kind === 'process-tree')
    await tree.getByText(proof.method).waitFor()
    expect(await page.locator('.bar-piece--open').count()).toBe(0)
    for (const phase of ['waiting', 'terminate', 'kill', 'obligations', 'removed'])
      expect(await page.locator(`.fall .bar-piece--${phase}`).count(), phase).toBeGreaterThan(0)
    // Only the process tree was killed. The summary, the row of the process tree and a visible bar show the kill.
    expect(await page.locator('.fall__track .bar-piece--kill').count()).toBe(1)
    expect((await page.locator('.fall__track .bar-piece--kill').boundingBox())?.width).toBeGreaterThanOrEqual(12)
    await tree.getByText('kill needed').waitFor()
    await page.getByText('1 resource did not end when asked to, and had to be killed.').waitFor()
    // The tooltip of the process tree describes its steps in words, for screen readers.
    await tree.getByRole('button', { name: 'Process tree' }).focus()
    const { took } = steps.find(({ step }: Json) => step === 'terminate')
    expect(await tree.getByRole('tooltip').textContent()).toMatch(
      new RegExp(`requested termination: ${duration(took)}[\\s\\S]*killed it: `),
    )
  })

  it('close page: a close of many agents is grouped by agent, folded, and unfolds by keyboard', async () => {
    for (let n = 0; n < 5; n++) {
      const id = await server.command(['sh', '-c', 'echo up; exec sleep 1000'], { namespace: 'many' })
      await server.get(`/api/agents/${id}/messages?since=1&wait=15000`)
    }
    await launchUnstoppable(server, { namespace: 'many' })
    await server.post('/api/cleanup', { scope: 'all', namespace: 'many' })
    const [newest] = await server.get('/api/cleanup/history?limit=1')
    const page = await browser.open(server, `#/cleanup/${newest.id}`)
    await page.getByText('4 of 4 verified gone').first().waitFor()
    expect(await page.getByText('4 of 4 verified gone').count()).toBe(6)
    const needed = page.getByRole('cell', { name: 'kill needed' })
    expect(await needed.textContent()).toBe('4 of 4 verified gone kill needed')
    expect(await page.getByRole('row', { name: /Process tree/ }).count()).toBe(0)
    const fold = page.getByRole('button', { name: /^agent / }).first()
    await fold.focus()
    await page.keyboard.press('Enter')
    expect(await fold.getAttribute('aria-expanded')).toBe('true')
    await page.getByRole('row', { name: /Process tree/ }).waitFor()
  })

  it('close page: the title is the name of the agent, also after the agent was deleted', async () => {
    const prompt = 'Fix the <b>reconnect</b> test'
    const id = await server.command(['sleep', '1000'], { prompt, namespace: 'named' })
    await server.post(`/api/agents/${id}/stop`)
    const page = await browser.open(server, '#/cleanup')
    const link = closes(page).getByRole('link', { name: prompt })
    await link.getByText(`agent ${id.slice(0, 8)}`).waitFor()
    const gone = await server.command(['sleep', '1000'], { prompt, namespace: 'named' })
    await server.call('DELETE', `/api/agents/${gone}`)
    await link.getByText(/· deleted/).waitFor()
    expect((await server.call('GET', `/api/agents/${gone}`)).status).toBe(404)
    await link.first().click()
    await page.getByRole('heading', { level: 1, name: `Close of “${prompt}”` }).waitFor()
    await page.getByRole('link', { name: '← Cleanup' }).click()
    await closes(page).waitFor()
  })

  it('close page: a close without a kill shows no kill', async () => {
    const id = await launchStopped(server)
    const page = await browser.open(server, '#/cleanup')
    await closes(page)
      .getByRole('link', { name: `agent ${id.slice(0, 8)}` })
      .click()
    await page.locator('.bar-piece--removed').first().waitFor({ state: 'attached' })
    expect(await page.locator('.bar-piece--kill').count()).toBe(0)
    expect(await page.getByText('kill needed').count()).toBe(0)
  })

  it('close page: an unknown or invalid id shows a message and a link to all closes', async () => {
    const page = await browser.open(server, '#/cleanup/6f0f7a2e-9c60-4f6a-9d3c-2f7f0f8f6a11', { allows: [/404/] })
    await page.getByText('There is no cleanup 6f0f7a2e').waitFor()
    // A retry would not help for a close that does not exist, so the page offers only the link back.
    for (const id of ['nonsense', '6f0f7a2e-9c60-4f6a-9d3c-2f7f0f8f6a12']) {
      const other = await browser.open(server, `#/cleanup/${id}`, { allows: [/40[04]/] })
      await other.getByRole('heading', { name: 'This close was not found.' }).waitFor()
      expect(await other.getByRole('button', { name: 'Try again' }).count()).toBe(0)
      await other.getByRole('link', { name: 'All closes' }).click()
      await other.getByRole('heading', { level: 1, name: 'Cleanup' }).waitFor()
    }
  })
})

describe('server crash', () => {
  it('server crash: during a close the page shows the state as unknown, and the bars stop growing', async () => {
    const own = await startServer()
    const id = await own.command([fixture('ignores-sigterm'), fixture('waits')])
    await own.get(`/api/agents/${id}/messages?since=1&wait=15000`)
    // The server is killed before it can answer.
    own.post(`/api/agents/${id}/stop`, { grace: 60_000 }).catch(() => {})
    const [close] = await expect
      .poll(() => own.get<Json[]>('/api/cleanup/history'), { timeout: 30_000 })
      .toHaveLength(1)
      .then(() => own.get<Json[]>('/api/cleanup/history'))
    const page = await browser.open(own, `#/cleanup/${close.id}`, { allows: [/ERR_CONNECTION|WebSocket|404/] })
    await page.locator('.bar-piece--terminate.bar-piece--open').waitFor({ state: 'attached' })
    own.ebb.signal('SIGKILL')
    await own.ebb.ended
    await page.getByText('unknown', { exact: true }).waitFor()
    await page.getByText('The server cannot be reached').waitFor()
    const open = page.locator('.bar-piece--terminate.bar-piece--open')
    const width = (await open.boundingBox())?.width
    await page.evaluate('new Promise((seen) => requestAnimationFrame(() => requestAnimationFrame(seen)))')
    expect((await open.boundingBox())?.width).toBe(width)
  })
})

/** Launches an agent whose temp folder has an immutable file, and stops it, which fails. `free` makes the file removable again. */
async function stuck(name: string): Promise<{ readonly id: string; free(): void }> {
  const id = await server.command(['sh', '-c', 'touch "$TMPDIR/$0"; chattr +i "$TMPDIR/$0"; echo "$TMPDIR"; exec sleep 1000', name])
  const [, message] = await server.get(`/api/agents/${id}/messages?since=0&limit=2`)
  const folder = message?.content ?? (await server.get(`/api/agents/${id}/messages?since=1&wait=15000`))[0].content
  const file = join(folder, name)
  await server.post(`/api/agents/${id}/stop`, { force: true })
  return {
    id,
    free: () => {
      if (existsSync(file)) execFileSync('chattr', ['-i', file])
    },
  }
}

describe('stuck resources', () => {
  needs('root')

  it('stuck resources: shown with their error as plain text, and retried until they are released', { timeout: 180_000 }, async () => {
    const name = '<img src=x onerror=document.title=1>'
    await launchStopped(server)
    const { free } = await stuck(name)
    try {
      const page = await browser.open(server, '#/cleanup', { allows: [/ERR_FAILED/] })
      const region = stuckRegion(page)
      await region.getByText(/1 resource could not be released since (\d+ \w+, )?\d\d:\d\d/).waitFor()
      await region.getByText(`${name} cannot be removed (EPERM)`).waitFor()
      expect(await page.title()).toBe('Cleanup · Ebb')
      const escalations = page.getByRole('figure', { name: 'Escalations' })
      await escalations.getByText(/Of the last \d+ closes with resources, 1 was not clean/).waitFor()
      await escalations.getByRole('list', { name: 'Legend' }).getByText('not clean', { exact: true }).waitFor()
      expect((await escalations.locator('g rect.plot__failed').boundingBox())?.height).toBeGreaterThan(0)
      expect(await seriousViolations(page)).toEqual([])
      const system = await browser.open(server, '#/system')
      await system.getByText('Something is left').waitFor()
      await system
        .getByRole('region', { name: /^Stuck/ })
        .getByText(`${name} cannot be removed (EPERM)`)
        .waitFor()
      expect(await seriousViolations(system)).toEqual([])
      await region.getByRole('button', { name: 'Force' }).click()
      const dialog = page.getByRole('dialog')
      // When the server does not answer the stop, the result of the stop is unknown.
      await page.route('**/api/agents/*/stop', (route) => route.abort(), { times: 1 })
      await dialog.getByRole('button', { name: 'Force' }).click()
      await dialog.getByText('The result is unknown: The server cannot be reached').waitFor()
      await dialog.getByRole('button', { name: 'Try again' }).click()
      await dialog.getByText('Still present:').waitFor()
      free()
      await dialog.getByRole('button', { name: 'Try again' }).click()
      await dialog.waitFor({ state: 'detached' })
      await region.waitFor({ state: 'detached' })
      await page.getByText(/^Clean: /).waitFor()
      // The failed close stays in the history, and says that its resources were released later.
      await closes(page)
        .getByRole('row', { name: /not clean/ })
        .first()
        .getByRole('link')
        .click()
      await page.getByText('A later close released the resources').waitFor()
      await page.getByText('1 resource still present.').waitFor()
    } finally {
      free()
    }
  })

  it('stuck resources: stay listed while another close runs, and their button shows a running retry', { timeout: 180_000 }, async () => {
    const { id, free } = await stuck('kept')
    try {
      const other = await launchUnstoppable(server)
      // A forced stop at the end of the test ends this stop early, so the result of this request is not needed.
      const stopping = server.post(`/api/agents/${other}/stop`, { grace: 60_000 }).catch(() => {})
      const page = await browser.open(server, '#/cleanup')
      // The reaper may close the other agent at the same time, so the row is selected by id.
      await closes(page)
        .getByRole('row', { name: new RegExp(other.slice(0, 8)) })
        .getByText('in progress')
        .waitFor()
      await stuckRegion(page).getByRole('button', { name: 'Try again' }).waitFor()
      await server.post(`/api/agents/${other}/stop`, { force: true })
      await stopping
      const again = server.post(`/api/agents/${id}/stop`, { force: true })
      const button = stuckRegion(page).getByRole('button', { name: 'Retrying…' })
      await button.waitFor()
      await button.click({ force: true })
      expect(await page.getByRole('dialog').count()).toBe(0)
      await again
      await stuckRegion(page).getByRole('button', { name: 'Try again' }).waitFor()
    } finally {
      free()
    }
  })
})

describe('held-back resources', () => {
  needs('root')

  it('held-back resources: shown as held back and not as stuck, and the force dialog omits the archive from what it keeps', async () => {
    const archive = join(server.home, 'archive')
    mkdirSync(archive, { recursive: true })
    const id = await server.command(['sh', '-c', 'echo precious; exec sleep 1000'], { prompt: 'Keep my log' })
    await server.get(`/api/agents/${id}/messages?since=1&wait=15000`)
    execFileSync('chattr', ['+i', archive])
    try {
      await server.post(`/api/agents/${id}/stop`, { grace: 0 })
      const page = await browser.open(server, '#/cleanup')
      await stuckRegion(page)
        .getByRole('heading', { name: /^Held back: retried automatically/ })
        .waitFor()
      await stuckRegion(page).getByRole('button', { name: 'Force' }).click()
      await page.getByRole('dialog').getByText('The agent in the list and its messages', { exact: true }).waitFor()
      await page.keyboard.press('Escape')
      await page.getByRole('link', { name: 'Agents', exact: true }).click()
      const tile = (name: string) => page.locator('.tile').filter({ hasText: name }).locator('dd')
      await expect.poll(() => tile('Stopping').textContent(), { timeout: 30_000 }).toBe('1')
      expect(await tile('Running').textContent()).toBe('0')
    } finally {
      execFileSync('chattr', ['-i', archive])
    }
  })
})

describe('close of several agents', () => {
  needs('tmux')

  it('close of several agents: grouped by agent, with the kills marked (makes the README screenshot)', async () => {
    await launchUnstoppable(server, { namespace: 'nightly', prompt: 'Fix the reconnect test that fails once in forty runs' })
    const slow = 'trap "sleep 0.8; exit" TERM; echo up; while :; do sleep 0.1; done'
    const id = await server.command(['sh', '-c', slow], {
      namespace: 'nightly',
      placement: 'tmux',
      prompt: 'Upgrade TypeScript to 7 and mend what breaks',
    })
    await server.get(`/api/agents/${id}/messages?since=1&wait=15000`)
    await server.post('/api/cleanup', { scope: 'all', namespace: 'nightly' })
    const [newest] = await server.get('/api/cleanup/history?limit=1')
    const page = await browser.open(server, `#/cleanup/${newest.id}`, { height: 960 })
    await page.getByText('clean', { exact: true }).waitFor()
    await page.getByText('1 resource did not end when asked to, and had to be killed.').waitFor()
    for (const name of ['Fix the reconnect test that fails once in forty runs', 'Upgrade TypeScript to 7 and mend what breaks'])
      await page.getByText(name).first().waitFor()
    expect(await page.getByText('the kernel: cgroup removed').count()).toBe(2)
    await screenshot(page, 'cleanup')
  })
})
