import type { Locator } from 'playwright-core'
import { describe, expect, it } from 'vitest'
import { useServer } from '../support/shared-server.ts'
import { requireNoSidewaysScroll, seriousViolations, useBrowser } from './support.ts'

const server = useServer()
const browser = useBrowser()

describe('every view', () => {
  for (const view of ['agents', 'cleanup', 'world'])
    for (const colorScheme of ['light', 'dark'] as const)
      it(`${view} in ${colorScheme} has nothing that axe calls serious`, async () => {
        const page = await browser.open(server, `#/${view}`, { colorScheme })
        expect(await seriousViolations(page)).toEqual([])
        await page.setViewportSize({ width: 390, height: 800 })
        expect(await seriousViolations(page)).toEqual([])
        await requireNoSidewaysScroll(page)
      })
})

it('what is long takes no room from all else, at 1280 and at 390', async () => {
  const namespace = 'n'.repeat(60)
  const prompt = 'A prompt of some words that are about as long as people write them'
  const id = await server.command(['sleep', '1000'], { prompt, namespace })
  await server.command(['sleep', '1000'])
  const page = await browser.open(server)
  const widthOf = async (one: Locator): Promise<number> => (await one.boundingBox())?.width ?? 0
  await page.getByLabel('Namespace').waitFor()
  expect(await widthOf(page.getByLabel('Namespace'))).toBeLessThanOrEqual(240)
  await page.goto(`${server.url}/#/world`)
  await page.getByLabel('Namespace').getByRole('option', { name: namespace }).waitFor({ state: 'attached' })
  expect(await widthOf(page.getByLabel('Namespace'))).toBeLessThanOrEqual(280)

  await page.setViewportSize({ width: 390, height: 800 })
  // A few short columns stay a table, whose heads can be seen.
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
  // Between the two a name can still be read.
  for (const width of [641, 760, 810]) {
    await page.setViewportSize({ width, height: 800 })
    await page.goto(`${server.url}/#/cleanup`)
    await page.getByRole('link', { name: prompt }).first().waitFor()
    await requireNoSidewaysScroll(page)
    expect(await widthOf(page.getByRole('link', { name: prompt }).first())).toBeGreaterThan(150)
  }
})

it('an agent that goes by its id has that once in its row', async () => {
  const id = await server.command(['sleep', '1000'])
  const page = await browser.open(server)
  const link = page.getByRole('table', { name: 'Agents' }).getByRole('link')
  await link.waitFor()
  expect((await link.textContent())?.trim()).toBe(`agent ${id.slice(0, 8)}`)
})

it('the theme is the one of the system until somebody chooses, and then stays', async () => {
  const page = await browser.open(server, '#/agents', { colorScheme: 'dark' })
  const ground = (): Promise<string> => page.evaluate('getComputedStyle(document.body).backgroundColor')
  const dark = await ground()
  await page.getByRole('button', { name: /system/ }).click()
  await expect.poll(ground).not.toBe(dark)
  await page.reload()
  await page.getByRole('button', { name: /light/ }).waitFor()
  expect(await ground()).not.toBe(dark)
  await page.getByRole('button', { name: /light/ }).click()
  await expect.poll(ground).toBe(dark)
})

it('a view that was gone to has its own title, and the first key leads past the bar', async () => {
  const page = await browser.open(server)
  expect(await page.title()).toBe('Agents · Ebb')
  await page.keyboard.press('Tab')
  await page.keyboard.press('Enter')
  expect(await page.evaluate('document.activeElement.id')).toBe('content')
  await page.getByRole('link', { name: 'World' }).click()
  await expect.poll(() => page.title()).toBe('World · Ebb')
  expect(await page.getByRole('link', { name: 'World' }).getAttribute('aria-current')).toBe('page')
})
