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
