import { expect, it } from 'vitest'
import { startServer } from '../support/server.ts'
import { patient, seriousViolations, useBrowser } from './support.ts'

const browser = useBrowser()

it('token: the page asks for the token, keeps it for this tab only, and then shows live data', async () => {
  await using server = await startServer(['--token', 'low-water-mark'])
  const page = await browser.open(server, '#/agents', { allows: [/401/, /WebSocket/] })
  await page.getByRole('heading', { name: 'This server requires a token' }).waitFor()
  const hasFocus = (): Promise<boolean> => page.evaluate(`document.activeElement?.type === 'password'`)
  await expect.poll(hasFocus, patient).toBe(true)
  expect(await page.getByText('Not connected').count()).toBe(0)
  expect(await seriousViolations(page)).toEqual([])
  await page.getByLabel('Token').fill('high-water-mark')
  await page.getByRole('button', { name: 'Use this token' }).click()
  await page.getByText('The server rejected this token').waitFor()
  await expect.poll(hasFocus, patient).toBe(true)
  expect(await page.getByText('Not connected').count()).toBe(0)
  await page.keyboard.type('low-water-mark')
  await page.keyboard.press('Enter')
  await page.getByText('No agents yet.').waitFor()
  expect(await page.locator('.snippet').textContent()).toContain('-H "Authorization: Bearer $EBB_TOKEN"')
  await page.getByText('live', { exact: true }).waitFor()
  await page.getByRole('button', { name: 'Launch a synthetic agent' }).click()
  await page.getByText('I list the files first.').waitFor()
  expect(await page.evaluate('[localStorage.length, sessionStorage.getItem("ebb.token")]')).toEqual([0, 'low-water-mark'])
  expect(page.url()).not.toContain('low-water-mark')
  await page.close()
})
