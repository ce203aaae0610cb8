import { expect, it } from 'vitest'
import { useServer } from '../support/shared-server.ts'
import { focused, isInSight, patient, tabTo, useBrowser } from './support.ts'

const server = useServer()
const browser = useBrowser()

it('keyboard: an agent is launched, opened and stopped without a mouse', async () => {
  await server.launch({ type: 'synthetic', prompt: 'An older one' })
  const page = await browser.open(server)
  await page.getByText('An older one').waitFor()
  await tabTo(page, 'Launch an agent')
  await page.keyboard.press('Enter')
  await page.getByRole('dialog').getByText('What to launch').waitFor()
  await tabTo(page, /^Command/)
  await page.keyboard.press('Space')
  await tabTo(page, 'Command')
  await page.keyboard.type('sh -c "echo here I am; sleep 1000"')
  await tabTo(page, 'Prompt')
  await page.keyboard.type('Only keys')
  await tabTo(page, 'Launch')
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { level: 1, name: 'Only keys' }).waitFor()
  await page.getByText('here I am', { exact: true }).waitFor()
  await expect.poll(() => focused(page), patient).toBe('Only keys')

  await page.goBack()
  await page.getByRole('heading', { level: 1, name: 'Agents' }).waitFor()
  // Back restores the focus to the same row. A newly opened view starts at its heading.
  await expect.poll(() => focused(page), patient).toMatch(/Only keys/)
  // Active agents may be loaded before ended ones.
  await page.getByText('An older one').waitFor()
  await page.keyboard.press('j')
  expect(await focused(page)).toMatch(/An older one/)
  await page.keyboard.press('k')
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { level: 1, name: 'Only keys' }).waitFor()

  await tabTo(page, 'Stop')
  await page.keyboard.press('Enter')
  await page.getByRole('dialog', { name: 'Stop this agent?' }).waitFor()
  await page.keyboard.press('Escape')
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  // The focus returns to the button that opened the dialog.
  expect(await focused(page)).toBe('Stop')
  await page.keyboard.press('Enter')
  await tabTo(page, 'Stop agent')
  await page.keyboard.press('Enter')
  await page.locator('.agent-facts').getByText('terminated').waitFor()
  // The Stop button disappears when the agent has ended, so the heading gets the focus.
  await expect.poll(() => focused(page), patient).toBe('Only keys')
})

it('keyboard: when the focused row disappears, by an undo or a deletion elsewhere, the heading gets the focus', async () => {
  const older = await server.launch({ type: 'synthetic', prompt: 'An older one' })
  const page = await browser.open(server)
  await page.getByRole('link', { name: 'An older one' }).waitFor()
  const gone = await server.launch({ type: 'synthetic', prompt: 'Not for long' })
  const row = page.getByRole('link', { name: 'Not for long' })
  await row.focus()
  expect((await server.call('DELETE', `/api/agents/${gone}`)).status).toBe(204)
  await row.waitFor({ state: 'detached' })
  await expect.poll(() => focused(page), patient).toBe('Agents')
  // When the last row disappears, the table does as well.
  await page.getByRole('link', { name: 'An older one' }).focus()
  expect((await server.call('DELETE', `/api/agents/${older}`)).status).toBe(204)
  await page.getByText('No agents yet.').waitFor()
  await expect.poll(() => focused(page), patient).toBe('Agents')
  await page.getByRole('button', { name: 'Launch a synthetic agent' }).click()
  await page.getByRole('button', { name: 'Undo: stop and delete' }).click()
  await page.getByText('Stopped and deleted').waitFor()
  await page.getByText('No agents yet.').waitFor()
  await expect.poll(() => focused(page), patient).toBe('Agents')
})

it('keyboard: a dialog button keeps the focus while its action runs and after it fails', async () => {
  const id = await server.command(['sleep', '1000'], { prompt: 'Hold on' })
  const page = await browser.open(server, `#/agents/${id}`, { width: 390, height: 500, allows: [/500/] })
  const answer = Promise.withResolvers<void>()
  let requests = 0
  await page.route('**/stop', async (route) => {
    requests += 1
    await answer.promise
    await route.fulfill({ status: 500, json: { message: 'The database is locked.' } })
  })
  await tabTo(page, 'Force stop')
  await page.keyboard.press('Enter')
  await tabTo(page, 'Force stop')
  await page.keyboard.press('Enter')
  await page.getByText('Killing, and checking that everything is gone').waitFor()
  expect(await focused(page)).toBe('Force stop')
  // A second Enter while the action runs sends no second request.
  await page.keyboard.press('Enter')
  answer.resolve()
  const alert = page.getByRole('dialog').getByRole('alert')
  await alert.getByText('The database is locked.').waitFor()
  expect([await focused(page), requests]).toEqual(['Try again', 1])
  expect(await isInSight(alert)).toBe(true)
  await page.unroute('**/stop')
  await page.keyboard.press('Enter')
  await page.locator('.agent-facts').getByText('terminated').waitFor()
  await expect.poll(() => focused(page), patient).toBe('Hold on')
})

it('keyboard: after an undo the heading gets the focus', async () => {
  const page = await browser.open(server)
  await page.getByRole('button', { name: 'Launch a synthetic agent' }).click()
  await page.getByRole('link', { name: 'System', exact: true }).click()
  await page.getByRole('heading', { level: 1, name: 'System' }).waitFor()
  // A toast stays while the pointer is over it, however long the Tab presses take.
  await page.getByRole('button', { name: 'Undo: stop and delete' }).hover()
  await tabTo(page, 'Undo: stop and delete')
  await page.keyboard.press('Enter')
  await page.getByText('Stopped and deleted. Nothing of the agent is left.').waitFor()
  await page.getByRole('button', { name: /^Undo|^Undoing/ }).waitFor({ state: 'detached' })
  expect(await page.evaluate('document.activeElement?.tagName')).toBe('H1')
})
