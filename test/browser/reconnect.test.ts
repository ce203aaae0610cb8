import type { Page } from 'playwright-core'
import { expect, it } from 'vitest'
import { temporaryHome } from '../support/home.ts'
import { needs } from '../support/real.ts'
import { type Json, startServer } from '../support/server.ts'
import { deaf, patient, useBrowser } from './support.ts'

needs('tmux')
const browser = useBrowser()

/** What a browser says of a server that is not there. */
const lost = [/WebSocket connection/, /ERR_CONNECTION_REFUSED/, /ERR_EMPTY_RESPONSE/, /ERR_CONNECTION_RESET/, /ERR_SOCKET_NOT_CONNECTED/]

/** Reads the conversation from its beginning, as a person would, and answers with what was seen under each number. */
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
        // What is still being fetched is waited for: nobody reads what has not come.
        if (shown.some(([, text]) => typeof text !== 'string')) return seen.size
        // To the last row that is drawn, which is then the first: a page that draws late is sent to the same place again. Rows that
        // are measured meanwhile may still move it past a few, as they would a person, who then reads again.
        if (shown.at(-1)?.[0] === total && seen.size < total) await toStart()
        else await page.evaluate(`[...document.querySelectorAll('[role=feed] article')].at(-1)?.scrollIntoView({ block: 'start' })`)
        return seen.size
      },
      { timeout: 90_000, interval: 20 },
    )
    .toBe(total)
    .catch(async (error: unknown) => {
      const missing = Array.from({ length: total }, (_, index) => index + 1).filter((number) => !seen.has(number))
      throw new Error(`Not seen: ${missing.join(' ')}. The page says:\n${await page.locator('main').textContent()}`, { cause: error })
    })
  return seen
}

it('a page that was open while its server was stopped and started again has every message once, and goes on', async () => {
  const home = temporaryHome()
  let server = await startServer(['--keep-on-exit'], { home })
  try {
    const { url } = server
    const script = 'i=0; while [ $i -lt 250 ]; do i=$((i+1)); echo "line $i"; sleep 0.02; done; echo done; sleep 1000'
    const id = await server.command(['sh', '-c', script], { placement: 'tmux', prompt: 'Count across the restart' })
    const page = await browser.open(server, `#/agents/${id}`, { allows: lost })
    await expect.poll(async () => Number(await page.locator('.conversation__count').textContent()), patient).toBeGreaterThan(20)
    await server.stop()
    await page.getByText('Not connected; trying again.').waitFor()
    server = await startServer(['--keep-on-exit'], { home, port: new URL(url).port })
    expect(server.url).toBe(url)
    await page.getByText('live', { exact: true }).waitFor()
    await page.getByText('done', { exact: true }).waitFor({ timeout: 60_000 })
    await page.getByText('running', { exact: true }).waitFor()
    const seen = await readAll(page, 252)
    const messages = await server.get<Json[]>(`/api/agents/${id}/messages`)
    expect([...seen].sort(([one], [other]) => one - other)).toEqual(messages.map((one) => [one.sequenceNumber, one.content]))
    expect(messages.slice(1, -1).map(({ content }) => content)).toEqual(Array.from({ length: 250 }, (_, index) => `line ${index + 1}`))

    // Lists were fetched again, and events are heard again.
    await page.goto(`${url}/#/agents`)
    await server.launch({ type: 'synthetic', prompt: 'Launched after the restart' })
    await page.getByText('Launched after the restart').waitFor()
    await page.close()
  } finally {
    await server.call('POST', '/api/test/reset-environment', { body: { force: true } })
    await server.stop()
  }
})

it('a reset whose server died can be put away, and the next server says what is left', async () => {
  const home = temporaryHome()
  let server = await startServer([], { home })
  try {
    await deaf(server)
    const page = await browser.open(server, '#/world', { allows: [...lost, /404/] })
    await page.getByRole('button', { name: 'Reset…' }).click()
    await page.getByLabel(/Something lives/).fill('everything')
    await page.getByRole('dialog').getByRole('button', { name: 'Reset', exact: true }).click()
    const reset = page.getByRole('region', { name: 'The reset' })
    await reset.getByText('told to end').first().waitFor()
    expect(await reset.getByRole('button', { name: 'Done' }).isDisabled()).toBe(true)
    server.ebb.signal('SIGKILL')
    await server.ebb.ended
    await reset.getByText('not known', { exact: true }).waitFor()
    server = await startServer([], { home, port: new URL(server.url).port })
    await page
      .getByRole('region', { name: 'Is the world clean' })
      .getByText('Nothing of an agent is left')
      .or(page.getByText('The world is clean'))
      .waitFor()
    await reset.getByRole('button', { name: 'Done' }).click()
    await reset.waitFor({ state: 'detached' })
    await page.close()
  } finally {
    await server.stop()
  }
})
