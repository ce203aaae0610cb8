import type { Page } from 'playwright-core'
import { describe, expect, it } from 'vitest'
import { temporaryHome } from '../support/home.ts'
import { startServer } from '../support/server.ts'
import { useServer } from '../support/shared-server.ts'
import { deaf, focused, look, patient, requireNoSidewaysScroll, seriousViolations, stopped, tabTo, useBrowser } from './support.ts'

const server = useServer()
const browser = useBrowser()

const closes = (page: Page) => page.getByRole('table', { name: 'Closes' })

describe('the history', () => {
  it('is told in numbers and words, can be filtered, and leads from a plot to a close by keyboard', { timeout: 180_000 }, async () => {
    // More of them where a picture is made.
    for (let n = 0; n < (process.env.EBB_SCREENSHOTS_MORE ? 40 : 4); n++) await stopped(server)
    const id = await deaf(server)
    await server.call('DELETE', `/api/agents/${id}?force=true`)
    const slow = await deaf(server)
    await server.post(`/api/agents/${slow}/stop`, { grace: 300 })
    const page = await browser.open(server, '#/cleanup')
    await closes(page).waitFor()
    const plot = page.getByRole('slider', { name: /^Time to clean/ })
    expect(await plot.getAttribute('aria-label')).toMatch(/Half of the last \d+ closes .*took at most [\d.]+ m?s, 95 of 100 at most/)
    expect(await page.getByRole('slider', { name: /^Escalations/ }).getAttribute('aria-label')).toMatch(/[1-9]\d* a kill\./)
    await page.getByLabel('Why').selectOption('deleted')
    await closes(page).getByText('it was deleted').first().waitFor()
    expect(await closes(page).getByText('it was stopped').count()).toBe(0)
    await page.getByLabel('Outcome').selectOption('not-clean')
    await page.getByRole('heading', { name: 'No close is like that.' }).waitFor()
    await page.getByRole('button', { name: 'Show all' }).click()
    await requireReadablePlots(page)
    await look(page, 'closes')
    await plot.focus()
    await page.keyboard.press('End')
    expect(await plot.getAttribute('aria-valuetext')).toContain(`agent ${slow.slice(0, 8)}`)
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { level: 1, name: `Close of agent ${slow.slice(0, 8)}` }).waitFor()
  })

  it('has more pages than one', { timeout: 180_000 }, async () => {
    for (let n = 0; n < 101; n++) await server.post('/api/cleanup', { scope: 'all', namespace: 'empty' })
    const page = await browser.open(server, '#/cleanup')
    await closes(page).waitFor()
    expect(await closes(page).getByRole('row').count()).toBe(101)
    // Who asks for more stays where they are: the list never goes away, nor the focus, nor the place on the page.
    await page.evaluate(`window.sameTable = document.querySelector('table[aria-label="Closes"]')`)
    const older = page.getByRole('button', { name: 'Show 100 older ones' })
    await older.focus()
    const before = await page.evaluate<number>('window.scrollY')
    expect(before).toBeGreaterThan(0)
    await page.keyboard.press('Enter')
    await expect.poll(() => closes(page).getByRole('row').count(), { timeout: 30_000 }).toBeGreaterThan(101)
    expect(await page.evaluate<boolean>('window.sameTable.isConnected')).toBe(true)
    expect(await focused(page)).toBe('All of them are shown')
    expect(await page.evaluate<number>('window.scrollY')).toBeGreaterThanOrEqual(before)
  })

  it('is filtered and plotted as far as it goes, and not only where it is shown', { timeout: 180_000 }, async () => {
    await stopped(server)
    const slow = await deaf(server)
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

  it('has its filters in the address, and follows it', async () => {
    await stopped(server)
    await server.call('DELETE', `/api/agents/${await server.command(['sleep', '1000'])}`)
    const page = await browser.open(server, '#/cleanup')
    await page.getByLabel('Why').selectOption('terminated')
    await page.getByLabel('Outcome').selectOption('clean')
    await expect.poll(() => page.url(), patient).toMatch(/#\/cleanup\?trigger=terminated&outcome=clean$/)
    const isKept = async (): Promise<void> => {
      await closes(page).waitFor()
      expect([await page.getByLabel('Why').inputValue(), await page.getByLabel('Outcome').inputValue()]).toEqual(['terminated', 'clean'])
      expect(await closes(page).getByText('it was deleted').count()).toBe(0)
    }
    await isKept()
    await page.reload()
    await isKept()
    await closes(page).getByRole('link').first().click()
    await page.getByRole('link', { name: '← Cleanup' }).click()
    await isKept()
    await page.goBack()
    await page.goBack()
    await isKept()
    // Who writes another address there, or takes the way to all of them, gets what it says.
    await page.evaluate(`window.location.hash = '#/cleanup?trigger=deleted&outcome=nonsense'`)
    await closes(page).getByText('it was deleted').first().waitFor()
    expect([await page.getByLabel('Why').inputValue(), await page.getByLabel('Outcome').inputValue()]).toEqual(['deleted', ''])
    await page.getByRole('navigation', { name: 'Views' }).getByRole('link', { name: 'Cleanup' }).click()
    await closes(page).getByText('it was stopped').first().waitFor()
    expect(await page.getByLabel('Why').inputValue()).toBe('')
  })

  it('is there after a restart, with what was proven', async () => {
    const home = temporaryHome()
    const first = await startServer([], { home })
    const id = await stopped(first)
    await first.stop()
    await using second = await startServer([], { home })
    const page = await browser.open(second, '#/cleanup')
    await closes(page)
      .getByRole('link', { name: `agent ${id.slice(0, 8)}` })
      .click()
    await page
      .getByRole('row', { name: /process-tree/ })
      .getByText('released', { exact: true })
      .waitFor()
    await second.post('/api/test/reset-environment', { force: true })
    await page.close()
  })

  it('is reached and read by keyboard alone', async () => {
    const id = await stopped(server)
    const page = await browser.open(server, '#/agents')
    await tabTo(page, 'Cleanup')
    await page.keyboard.press('Enter')
    await closes(page).waitFor()
    // A table hears keys a moment after it is seen; the first that it hears leads into its first row.
    const hasStepped = async (): Promise<boolean> => {
      await page.keyboard.press('j')
      return await page.evaluate<boolean>('document.activeElement.closest("tr[data-index]") !== null')
    }
    await expect.poll(hasStepped, patient).toBe(true)
    expect(await focused(page)).toContain(`agent ${id.slice(0, 8)}`)
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { level: 1, name: `Close of agent ${id.slice(0, 8)}` }).waitFor()
    expect(await focused(page)).toBe(`Close of agent ${id.slice(0, 8)}`)
    await page.getByRole('row', { name: /process-tree/ }).waitFor()
    await tabTo(page, 'process-tree')
    await page.getByRole('tooltip').first().waitFor()
  })
})

/** The plots are drawn, no word of theirs is cut off, and none covers what is measured. */
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
  // The table and the plots are asked for apart, and a page that was made narrow draws them once more.
  await expect.poll(() => page.evaluate(measure), patient).toEqual({ isDrawn: true, cut: [], covering: [] })
}

describe('with something in it', () => {
  for (const colorScheme of ['light', 'dark'] as const)
    it(`in ${colorScheme} has nothing that axe calls serious, and fits a narrow page`, async () => {
      await stopped(server)
      await stopped(server)
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
      await look(page, `close-narrow-${colorScheme}`)
      await page.goBack()
      await closes(page).waitFor()
      await requireNoSidewaysScroll(page)
      await requireReadablePlots(page)
      await look(page, `cleanup-narrow-${colorScheme}`)
    })
})
