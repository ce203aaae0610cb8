import type { Page } from 'playwright-core'
import { expect, it } from 'vitest'
import { temporaryHome } from '../support/home.ts'
import { needs } from '../support/real.ts'
import { type Json, startServer } from '../support/server.ts'
import { launchUnstoppable, patient, useBrowser } from './support.ts'

needs('tmux')
const browser = useBrowser()

/** Console messages of the browser while the server is down. */
const lost = [/WebSocket connection/, /ERR_CONNECTION_REFUSED/, /ERR_EMPTY_RESPONSE/, /ERR_CONNECTION_RESET/, /ERR_SOCKET_NOT_CONNECTED/]

/** Scrolls through the conversation from its beginning. Returns the text shown under each message number. */
async function readAll(page: Page, total: number): Promise<ReadonlyMap<number, string>> {
  const seen = new Map<number, string>()
  const toStart = async (): Promise<void> => {
    await page.getByRole('button', { name: 'Start', exact: true }).click()
    await page.locator('article[data-number="1"] .message__text').waitFor()
  }
  await toStart()
  await expect
    .poll(
      async () => {
        const shown = await page.evaluate<[number, string | undefined][]>(
          `[...document.querySelectorAll('[role=feed] article')].map((one) => [Number(one.dataset.number), one.querySelector('.message__text')?.textContent])`,
        )
        for (const [number, text] of shown) {
          if (typeof text !== 'string') continue
          expect(seen.get(number) ?? text).toBe(text)
          seen.set(number, text)
        }
        // Wait until all rendered messages are loaded.
        if (shown.some(([, text]) => typeof text !== 'string')) return seen.size
        // Scroll the last rendered row to the top. If the page renders late, the same position is requested again. Rows measured
        // meanwhile may shift the position past a few messages; a second pass reads those.
        if (shown.at(-1)?.[0] === total && seen.size < total) await toStart()
        else await page.evaluate(`[...document.querySelectorAll('[role=feed] article')].at(-1)?.scrollIntoView({ block: 'start' })`)
        return seen.size
      },
      { timeout: 90_000, interval: 20 },
    )
    .toBe(total)
    .catch(async (error: unknown) => {
      const missing = Array.from({ length: total }, (_, index) => index + 1).filter((number) => !seen.has(number))
      throw new Error(`Messages not seen: ${missing.join(' ')}. Page text:\n${await page.locator('main').textContent()}`, { cause: error })
    })
  return seen
}

it('reconnect: after a restart of the server an open page has every message once, and continues live', async () => {
  const home = temporaryHome()
  let server = await startServer(['--keep-on-exit'], { home })
  try {
    const { url } = server
    const script = 'i=0; while [ $i -lt 250 ]; do i=$((i+1)); echo "line $i"; sleep 0.02; done; echo done; sleep 1000'
    const id = await server.command(['sh', '-c', script], { placement: 'tmux', prompt: 'Count across the restart' })
    const page = await browser.open(server, `#/agents/${id}`, { allows: lost })
    await expect.poll(async () => Number(await page.locator('.conversation__count').textContent()), patient).toBeGreaterThan(20)
    await server.stop()
    await page.getByText('Not connected to the server.').waitFor()
    server = await startServer(['--keep-on-exit'], { home, port: new URL(url).port })
    expect(server.url).toBe(url)
    await page.getByText('live', { exact: true }).waitFor()
    await page.getByText('done', { exact: true }).waitFor({ timeout: 60_000 })
    await page.getByText('running', { exact: true }).waitFor()
    const seen = await readAll(page, 252)
    const messages = await server.get<Json[]>(`/api/agents/${id}/messages`)
    expect([...seen].sort(([one], [other]) => one - other)).toEqual(messages.map((one) => [one.sequenceNumber, one.content]))
    expect(messages.slice(1, -1).map(({ content }) => content)).toEqual(Array.from({ length: 250 }, (_, index) => `line ${index + 1}`))

    // After the restart of the server, the page loads its lists again, and events arrive again.
    await page.goto(`${url}/#/agents`)
    await server.launch({ type: 'synthetic', prompt: 'Launched after the restart' })
    await page.getByText('Launched after the restart').waitFor()
    await page.close()
  } finally {
    await server.call('POST', '/api/test/reset-environment', { body: { force: true } })
    await server.stop()
  }
})

it('reconnect: a reset whose server died can be dismissed, and the next server shows what is left', async () => {
  const home = temporaryHome()
  let server = await startServer([], { home })
  try {
    await launchUnstoppable(server)
    const page = await browser.open(server, '#/system', { allows: [...lost, /404/] })
    await page.getByRole('button', { name: 'Reset…' }).click()
    await page.getByLabel(/are running\. Type/).fill('everything')
    await page.getByRole('dialog').getByRole('button', { name: 'Reset', exact: true }).click()
    const reset = page.getByRole('region', { name: 'Reset progress' })
    await reset.getByText('termination requested').first().waitFor()
    expect(await reset.getByRole('button', { name: 'Done' }).isDisabled()).toBe(true)
    server.ebb.signal('SIGKILL')
    await server.ebb.ended
    await reset.getByText('unknown', { exact: true }).waitFor()
    server = await startServer([], { home, port: new URL(server.url).port })
    await page
      .getByRole('region', { name: 'System status' })
      .getByText('No resources are left')
      .or(page.getByText('The system is clean'))
      .waitFor()
    await reset.getByRole('button', { name: 'Done' }).click()
    await reset.waitFor({ state: 'detached' })
    await page.close()
  } finally {
    await server.stop()
  }
})
