import type { Locator } from 'playwright-core'
import { describe, expect, it } from 'vitest'
import { useServer } from '../support/shared-server.ts'
import { requireNoSidewaysScroll, seriousViolations, useBrowser } from './support.ts'

const server = useServer()
const browser = useBrowser()

describe('all views', () => {
  for (const view of ['agents', 'cleanup', 'system'])
    for (const colorScheme of ['light', 'dark'] as const)
      it(`${view} view: no serious axe violations in ${colorScheme} mode, wide or narrow`, async () => {
        const page = await browser.open(server, `#/${view}`, { colorScheme })
        expect(await seriousViolations(page)).toEqual([])
        await page.setViewportSize({ width: 390, height: 800 })
        expect(await seriousViolations(page)).toEqual([])
        await requireNoSidewaysScroll(page)
      })
})

it('layout: long namespaces and names do not squeeze other elements, at any width', async () => {
  const namespace = 'n'.repeat(60)
  const prompt = 'A prompt of some words that are about as long as people write them'
  const id = await server.command(['sleep', '1000'], { prompt, namespace })
  await server.command(['sleep', '1000'])
  const page = await browser.open(server)
  const widthOf = async (element: Locator): Promise<number> => (await element.boundingBox())?.width ?? 0
  await page.getByLabel('Namespace').waitFor()
  expect(await widthOf(page.getByLabel('Namespace'))).toBeLessThanOrEqual(240)
  await page.goto(`${server.url}/#/system`)
  await page.getByLabel('Namespace').getByRole('option', { name: namespace }).waitFor({ state: 'attached' })
  expect(await widthOf(page.getByLabel('Namespace'))).toBeLessThanOrEqual(280)

  await page.setViewportSize({ width: 390, height: 800 })
  // A table with few short columns stays a table on a narrow page.
  const kinds = page.getByRole('table', { name: 'Resources by kind' })
  await kinds.getByRole('columnheader', { name: 'Held' }).waitFor()
  expect(await widthOf(kinds.getByRole('columnheader', { name: 'Held' }))).toBeGreaterThan(20)
  await requireNoSidewaysScroll(page)
  await server.post(`/api/agents/${id}/stop`)
  await page.goto(`${server.url}/#/cleanup`)
  await page.getByRole('link', { name: prompt }).first().click()
  const heading = page.getByRole('heading', { level: 1, name: `Close of “${prompt}”` })
  await heading.waitFor()
  expect(await widthOf(heading)).toBeGreaterThan(340)
  // At widths between narrow and wide, names stay readable.
  for (const width of [641, 760, 810]) {
    await page.setViewportSize({ width, height: 800 })
    await page.goto(`${server.url}/#/cleanup`)
    await page.getByRole('link', { name: prompt }).first().waitFor()
    await requireNoSidewaysScroll(page)
    expect(await widthOf(page.getByRole('link', { name: prompt }).first())).toBeGreaterThan(150)
  }
})

it('agents view: an unnamed agent shows its id only once', async () => {
  const id = await server.command(['sleep', '1000'])
  const page = await browser.open(server)
  const link = page.getByRole('table', { name: 'Agents' }).getByRole('link')
  await link.waitFor()
  expect((await link.textContent())?.trim()).toBe(`agent ${id.slice(0, 8)}`)
})

it('theme: follows the operating system until the user chooses one, which is then kept', async () => {
  const page = await browser.open(server, '#/agents', { colorScheme: 'dark' })
  const background = (): Promise<string> => page.evaluate('getComputedStyle(document.body).backgroundColor')
  const dark = await background()
  await page.getByRole('button', { name: /system/ }).click()
  await expect.poll(background).not.toBe(dark)
  await page.reload()
  await page.getByRole('button', { name: /light/ }).waitFor()
  expect(await background()).not.toBe(dark)
  await page.getByRole('button', { name: /light/ }).click()
  await expect.poll(background).toBe(dark)
})

it('navigation: a view sets the page title, and the first Tab offers to skip to the content', async () => {
  const page = await browser.open(server)
  expect(await page.title()).toBe('Agents · Ebb')
  await page.keyboard.press('Tab')
  await page.keyboard.press('Enter')
  expect(await page.evaluate('document.activeElement.id')).toBe('content')
  await page.getByRole('link', { name: 'System' }).click()
  await expect.poll(() => page.title()).toBe('System · Ebb')
  expect(await page.getByRole('link', { name: 'System' }).getAttribute('aria-current')).toBe('page')
})

it('navigation: the former address #/world shows the System view', async () => {
  const page = await browser.open(server, '#/world?namespace=default')
  await page.getByRole('heading', { level: 1, name: 'System' }).waitFor()
  expect(await page.getByRole('link', { name: 'System' }).getAttribute('aria-current')).toBe('page')
  expect(await page.getByLabel('Namespace').inputValue()).toBe('default')
})
