import type { Page } from 'playwright-core'
import { describe, expect, it } from 'vitest'
import { temporaryHome } from '../support/home.ts'
import { startServer } from '../support/server.ts'
import { useServer } from '../support/shared-server.ts'
import {
  focused,
  launchStopped,
  launchUnstoppable,
  patient,
  requireNoSidewaysScroll,
  reviewScreenshot,
  seriousViolations,
  tabTo,
  useBrowser,
} from './support.ts'

const server = useServer()
const browser = useBrowser()

const closes = (page: Page) => page.getByRole('table', { name: 'Closes' })

describe('cleanup history', () => {
  it('cleanup history: plots have text summaries, filters work, and a plot opens a close by keyboard', { timeout: 180_000 }, async () => {
    // A screenshot of the history needs more closes than the test.
    for (let n = 0; n < (process.env.EBB_SCREENSHOTS_MORE ? 40 : 4); n++) await launchStopped(server)
    const id = await launchUnstoppable(server)
    await server.call('DELETE', `/api/agents/${id}?force=true`)
    const slow = await launchUnstoppable(server)
    await server.post(`/api/agents/${slow}/stop`, { grace: 300 })
    const page = await browser.open(server, '#/cleanup')
    await closes(page).waitFor()
    const plot = page.getByRole('slider', { name: /^Time to clean/ })
    expect(await plot.getAttribute('aria-label')).toMatch(
      /Median duration of the last \d+ closes with resources: [\d.]+ m?s\. 95th percentile: /,
    )
    expect(await page.getByRole('slider', { name: /^Escalations/ }).getAttribute('aria-label')).toMatch(/[1-9]\d* had to be killed\./)
    await page.getByLabel('Reason').selectOption('deleted')
    await closes(page).getByText('· deleted').first().waitFor()
    expect(await closes(page).getByText('· stopped').count()).toBe(0)
    await page.getByLabel('Outcome').selectOption('not-clean')
    await page.getByRole('heading', { name: 'No matching closes.' }).waitFor()
    await page.getByRole('button', { name: 'Show all' }).click()
    await requireReadablePlots(page)
    await reviewScreenshot(page, 'closes')
    await plot.focus()
    await page.keyboard.press('End')
    expect(await plot.getAttribute('aria-valuetext')).toContain(`agent ${slow.slice(0, 8)}`)
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { level: 1, name: `Close of agent ${slow.slice(0, 8)}` }).waitFor()
  })

  it('cleanup history: older closes are added without losing the list, the focus or the scroll position', {
    timeout: 180_000,
  }, async () => {
    for (let n = 0; n < 101; n++) await server.post('/api/cleanup', { scope: 'all', namespace: 'empty' })
    const page = await browser.open(server, '#/cleanup')
    await closes(page).waitFor()
    expect(await closes(page).getByRole('row').count()).toBe(101)
    // The table element stays mounted, and the focus and the scroll position are kept.
    await page.evaluate(`window.sameTable = document.querySelector('table[aria-label="Closes"]')`)
    const older = page.getByRole('button', { name: 'Show 100 older closes' })
    await older.focus()
    const before = await page.evaluate<number>('window.scrollY')
    expect(before).toBeGreaterThan(0)
    await page.keyboard.press('Enter')
    await expect.poll(() => closes(page).getByRole('row').count(), { timeout: 30_000 }).toBeGreaterThan(101)
    expect(await page.evaluate<boolean>('window.sameTable.isConnected')).toBe(true)
    expect(await focused(page)).toBe('All closes are shown')
    expect(await page.evaluate<number>('window.scrollY')).toBeGreaterThanOrEqual(before)
  })

  it('cleanup history: filters and plots cover all closes, not only the listed ones', { timeout: 180_000 }, async () => {
    await launchStopped(server)
    const slow = await launchUnstoppable(server)
    await server.post(`/api/agents/${slow}/stop`, { grace: 300 })
    for (let n = 0; n < 101; n++) await server.post('/api/cleanup', { scope: 'all', namespace: 'empty' })
    const page = await browser.open(server, '#/cleanup')
    await closes(page).waitFor()
    expect(
      await closes(page)
        .getByRole('link', { name: `agent ${slow.slice(0, 8)}` })
        .count(),
    ).toBe(0)
    const plot = page.getByRole('slider', { name: /^Time to clean/ })
    await plot.focus()
    await page.keyboard.press('End')
    expect(await plot.getAttribute('aria-valuetext')).toContain(`agent ${slow.slice(0, 8)}`)
    await page.getByLabel('Outcome').selectOption('escalated')
    await closes(page)
      .getByRole('link', { name: `agent ${slow.slice(0, 8)}` })
      .waitFor()
    expect(await closes(page).getByRole('link', { name: 'namespace empty' }).count()).toBe(0)
  })

  it('cleanup history: filters are stored in the address, and follow it', async () => {
    await launchStopped(server)
    await server.call('DELETE', `/api/agents/${await server.command(['sleep', '1000'])}`)
    const page = await browser.open(server, '#/cleanup')
    await page.getByLabel('Reason').selectOption('terminated')
    await page.getByLabel('Outcome').selectOption('clean')
    await expect.poll(() => page.url(), patient).toMatch(/#\/cleanup\?trigger=terminated&outcome=clean$/)
    const requireFilters = async (): Promise<void> => {
      await closes(page).waitFor()
      expect([await page.getByLabel('Reason').inputValue(), await page.getByLabel('Outcome').inputValue()]).toEqual(['terminated', 'clean'])
      expect(await closes(page).getByText('· deleted').count()).toBe(0)
    }
    await requireFilters()
    await page.reload()
    await requireFilters()
    await closes(page).getByRole('link').first().click()
    await page.getByRole('link', { name: '← Cleanup' }).click()
    await requireFilters()
    await page.goBack()
    await page.goBack()
    await requireFilters()
    // A changed address changes the filters; unknown values are ignored. The navigation link resets them.
    await page.evaluate(`window.location.hash = '#/cleanup?trigger=deleted&outcome=nonsense'`)
    await closes(page).getByText('· deleted').first().waitFor()
    expect([await page.getByLabel('Reason').inputValue(), await page.getByLabel('Outcome').inputValue()]).toEqual(['deleted', ''])
    await page.getByRole('navigation', { name: 'Views' }).getByRole('link', { name: 'Cleanup' }).click()
    await closes(page).getByText('· stopped').first().waitFor()
    expect(await page.getByLabel('Reason').inputValue()).toBe('')
  })

  it('cleanup history: closes and their proofs are kept across a restart of the server', async () => {
    const home = temporaryHome()
    const first = await startServer([], { home })
    const id = await launchStopped(first)
    await first.stop()
    await using second = await startServer([], { home })
    const page = await browser.open(second, '#/cleanup')
    await closes(page)
      .getByRole('link', { name: `agent ${id.slice(0, 8)}` })
      .click()
    await page
      .getByRole('row', { name: /Process tree/ })
      .getByText('released', { exact: true })
      .waitFor()
    await second.post('/api/test/reset-environment', { force: true })
    await page.close()
  })

  it('cleanup history: usable by keyboard alone', async () => {
    const id = await launchStopped(server)
    const page = await browser.open(server, '#/agents')
    await tabTo(page, 'Cleanup')
    await page.keyboard.press('Enter')
    await closes(page).waitFor()
    // The table registers its key listener shortly after it is rendered, so the key is repeated until the focus is in a row.
    const hasStepped = async (): Promise<boolean> => {
      await page.keyboard.press('j')
      return await page.evaluate<boolean>('document.activeElement.closest("tr[data-index]") !== null')
    }
    await expect.poll(hasStepped, patient).toBe(true)
    expect(await focused(page)).toContain(`agent ${id.slice(0, 8)}`)
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { level: 1, name: `Close of agent ${id.slice(0, 8)}` }).waitFor()
    expect(await focused(page)).toBe(`Close of agent ${id.slice(0, 8)}`)
    await page.getByRole('row', { name: /Process tree/ }).waitFor()
    await tabTo(page, 'Process tree')
    await page.getByRole('tooltip').first().waitFor()
  })
})

/** Requires that the plots are drawn, no label is cut off, and no label covers a point. */
async function requireReadablePlots(page: Page): Promise<void> {
  const measure = `
    (() => {
      const words = [...document.querySelectorAll('.plot svg text')]
      const points = [...document.querySelectorAll('.plot__good, .plot__bad')].map((point) => point.getBoundingClientRect())
      const box = (text) => text.getBoundingClientRect()
      const isCut = (text) => {
        const picture = text.ownerSVGElement.getBoundingClientRect()
        return box(text).left < picture.left || box(text).right > picture.right
      }
      const covers = (text) => points.some(
        ({ left, right, top, bottom }) => left < box(text).right && right > box(text).left && top < box(text).bottom && bottom > box(text).top,
      )
      const named = (fits) => words.filter(fits).map((text) => text.textContent)
      return { isDrawn: words.length > 4, cut: named(isCut), covering: named(covers) }
    })()`
  // The measurement is repeated, because the plots load separately from the table, and are redrawn after a resize.
  await expect.poll(() => page.evaluate(measure), patient).toEqual({ isDrawn: true, cut: [], covering: [] })
}

describe('cleanup history accessibility', () => {
  for (const colorScheme of ['light', 'dark'] as const)
    it(`cleanup history: no serious axe violations in ${colorScheme} mode, and it fits a narrow page`, async () => {
      await launchStopped(server)
      await launchStopped(server)
      await server.post('/api/cleanup', { scope: 'all' })
      const page = await browser.open(server, '#/cleanup', { colorScheme })
      await closes(page).waitFor()
      await requireReadablePlots(page)
      expect(await seriousViolations(page)).toEqual([])
      await closes(page)
        .getByRole('link', { name: /^agent/ })
        .first()
        .click()
      await page.locator('.fall').waitFor()
      expect(await seriousViolations(page)).toEqual([])
      await page.setViewportSize({ width: 390, height: 800 })
      expect(await seriousViolations(page)).toEqual([])
      await requireNoSidewaysScroll(page)
      await reviewScreenshot(page, `close-narrow-${colorScheme}`)
      await page.goBack()
      await closes(page).waitFor()
      await requireNoSidewaysScroll(page)
      await requireReadablePlots(page)
      await reviewScreenshot(page, `cleanup-narrow-${colorScheme}`)
    })
})
