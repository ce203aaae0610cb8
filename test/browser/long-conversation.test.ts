import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { describe, expect, it } from 'vitest'
import type { Json } from '../support/server.ts'
import { useServer } from '../support/shared-server.ts'
import { patient, useBrowser } from './support.ts'

const server = useServer()
const browser = useBrowser()

const rows = (page: Page) => page.getByRole('feed').locator('article')
const elements = (page: Page): Promise<number> => page.evaluate('document.querySelectorAll("*").length')

/** Measures the longest time between two frames from now on, in ms. It is printed and not asserted. */
async function measureFrames(page: Page): Promise<() => Promise<number>> {
  await page.evaluate(`(() => {
    globalThis.longestFrame = 0
    let before = performance.now()
    const measure = (now) => { globalThis.longestFrame = Math.max(globalThis.longestFrame, now - before); before = now; requestAnimationFrame(measure) }
    requestAnimationFrame(measure)
  })()`)
  return () => page.evaluate('Math.round(globalThis.longestFrame)')
}

/** The heap size of the page after a garbage collection. */
async function usedHeap(page: Page): Promise<number> {
  const session = await page.context().newCDPSession(page)
  await session.send('HeapProfiler.enable')
  await session.send('HeapProfiler.collectGarbage')
  return (await session.send('Runtime.getHeapUsage')).usedSize
}

interface Box {
  scrollTop: number
  readonly scrollHeight: number
}

const topOf = (page: Page): Promise<number> => page.getByRole('feed').evaluate((box: Box) => box.scrollTop)

/** Whether the scroll position is the same two frames later. */
const isStill = (page: Page): Promise<boolean> =>
  page.evaluate(`(async () => {
    const box = document.querySelector('[role=feed]')
    const before = box.scrollTop
    await new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))
    return box.scrollTop === before
  })()`)

describe('long conversation', () => {
  it('long conversation: 100,000 messages can be read from end to end, and only the visible ones are rendered', async () => {
    const go = join(server.home, 'go')
    const script = `until [ -e "$0" ]; do sleep 0.05; done; seq -f 'line number %.0f' 1 100000; sleep 1000`
    const id = await server.command(['sh', '-c', script, go], { prompt: 'Count' })
    const page = await browser.open(server, `#/agents/${id}`)
    await page.getByRole('feed').getByText('Count').waitFor()
    // The messages arrive while the page is open.
    const startedMs = performance.now()
    writeFileSync(go, '')
    const longest = await measureFrames(page)
    const written = async (): Promise<number> => (await server.get<Json>(`/api/agents/${id}`)).session.messageCount
    await expect.poll(written, { timeout: 120_000, interval: 200 }).toBe(100_001)
    const writtenMs = performance.now()
    // The page shows the newest messages of a fast writer.
    await expect.poll(() => page.locator('.conversation__count').textContent(), patient).toBe('100,001')
    await page.getByText('line number 100000', { exact: true }).waitFor()
    const behindMs = Math.round(performance.now() - writtenMs)
    const arriving = await longest()
    const arrivedMs = Math.round(performance.now() - startedMs)
    expect(await rows(page).count()).toBeLessThan(60)
    expect(await elements(page)).toBeLessThan(1_500)

    const reading = await measureFrames(page)
    await page.getByRole('button', { name: 'Start', exact: true }).click()
    await page.getByText('line number 1', { exact: true }).waitFor()
    await page.getByRole('feed').hover()
    for (let turn = 0; turn < 50; turn++) await page.mouse.wheel(0, 4_000)
    // Wheel scrolling continues for a while after the last event.
    let before = -1
    await expect
      .poll(async () => {
        const at = Number(await rows(page).first().getAttribute('data-number'))
        const isStill = at > 1_000 && at === before
        before = at
        return isStill
      }, patient)
      .toBe(true)
    // Jump to the middle, as by dragging the scroll bar.
    await page.getByRole('feed').evaluate((box: Box) => {
      box.scrollTop = box.scrollHeight / 2
    })
    await expect.poll(async () => await rows(page).first().textContent(), patient).toMatch(/line number (4|5)\d{4}/)
    const [number, text] = await page.evaluate<[string, string]>(
      `(() => { const one = document.querySelector('[role=feed] article:not(.message--absent)'); return [one.dataset.number, one.querySelector('.message__text').textContent] })()`,
    )
    expect(text).toBe(`line number ${Number(number) - 1}`)
    await page.getByRole('button', { name: 'End', exact: true }).click()
    await page.getByText('line number 100000', { exact: true }).waitFor()
    expect(await rows(page).count()).toBeLessThan(60)
    expect(await elements(page)).toBeLessThan(1_500)
    const heap = await usedHeap(page)
    expect(heap).toBeLessThan(15_000_000)
    console.log(
      `longest frame: ${arriving} ms while 100,000 arrived in ${arrivedMs} ms, ${behindMs} ms after the last was written; ${await reading()} ms while scrolling; ${Math.round(heap / 1e6)} MB of heap`,
    )
  })

  it('long conversation: follows the end, stays where the reader scrolled, and counts new messages', async () => {
    const go = join(server.home, 'go-on')
    const script = 'seq 1 300; until [ -e "$0" ]; do sleep 0.05; done; seq -f "late %.0f" 1 30; sleep 1000'
    const id = await server.command(['sh', '-c', script, go])
    const page = await browser.open(server, `#/agents/${id}`)
    await page.getByText('300', { exact: true }).waitFor()
    await page.getByRole('feed').hover()
    await page.mouse.wheel(0, -3_000)
    await page.getByText('300', { exact: true }).waitFor({ state: 'detached' })
    // Wheel scrolling continues for a while after the last event.
    await expect.poll(() => isStill(page), patient).toBe(true)
    writeFileSync(go, '')
    await page.getByRole('button', { name: '30 new' }).waitFor()
    const top = await topOf(page)
    expect(await page.getByText('late 30', { exact: true }).count()).toBe(0)
    expect(await topOf(page)).toBe(top)
    await page.getByRole('button', { name: '30 new' }).click()
    await page.getByText('late 30', { exact: true }).waitFor()
    expect(await page.getByRole('button', { name: /new/ }).count()).toBe(0)
  })

  it('long conversation: Home stops following and End resumes it, also while messages arrive fast', async () => {
    const id = await server.command(['sh', '-c', 'seq 1 300; n=0; while n=$((n+1)); do echo "more $n"; sleep 0.01; done'])
    const page = await browser.open(server, `#/agents/${id}`)
    await page
      .getByText(/^more \d+$/)
      .first()
      .waitFor()
    const end = page.getByRole('button', { name: 'End', exact: true })
    const feed = page.getByRole('feed')
    for (let turn = 0; turn < 5; turn++) {
      await feed.focus()
      await page.keyboard.press('Home')
      await expect.poll(() => end.getAttribute('aria-pressed'), patient).toBe('false')
      await page.getByRole('button', { name: /new/ }).waitFor()
      await page.keyboard.press('End')
      await expect.poll(() => end.getAttribute('aria-pressed'), patient).toBe('true')
      await expect.poll(() => page.getByRole('button', { name: /new/ }).count(), patient).toBe(0)
    }
  })
})
