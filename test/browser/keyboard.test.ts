import { expect, it } from 'vitest'
import { useServer } from '../support/shared-server.ts'
import { focused, isInSight, patient, tabTo, useBrowser } from './support.ts'

const server = useServer()
const browser = useBrowser()

it('launches, opens and stops an agent without a mouse', async () => {
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
  // Back where one was; a view that one comes to anew begins at its heading.
  await expect.poll(() => focused(page), patient).toMatch(/Only keys/)
  // Those that live may be there before the others.
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
  // Where it was before.
  expect(await focused(page)).toBe('Stop')
  await page.keyboard.press('Enter')
  await tabTo(page, 'Stop it')
  await page.keyboard.press('Enter')
  await page.locator('.agent-facts').getByText('terminated').waitFor()
  // What had the focus is gone with the agent.
  await expect.poll(() => focused(page), patient).toBe('Only keys')
})

it('keeps the focus in the list when the row that had it goes, by an undo or by somebody else', async () => {
  const older = await server.launch({ type: 'synthetic', prompt: 'An older one' })
  const page = await browser.open(server)
  await page.getByRole('link', { name: 'An older one' }).waitFor()
  const gone = await server.launch({ type: 'synthetic', prompt: 'Not for long' })
  const row = page.getByRole('link', { name: 'Not for long' })
  await row.focus()
  expect((await server.call('DELETE', `/api/agents/${gone}`)).status).toBe(204)
  await row.waitFor({ state: 'detached' })
  await expect.poll(() => focused(page), patient).toBe('Agents')
  // With the last row the whole table goes.
  await page.getByRole('link', { name: 'An older one' }).focus()
  expect((await server.call('DELETE', `/api/agents/${older}`)).status).toBe(204)
  await page.getByText('No agents yet.').waitFor()
  await expect.poll(() => focused(page), patient).toBe('Agents')
  await page.getByRole('button', { name: 'Launch a synthetic one' }).click()
  await page.getByRole('button', { name: 'Undo: stop and delete it' }).click()
  await page.getByText('It was stopped and deleted').waitFor()
  await page.getByText('No agents yet.').waitFor()
  await expect.poll(() => focused(page), patient).toBe('Agents')
})

it('keeps the focus while something is under way, when it is refused, and when what had it is gone', async () => {
  const id = await server.command(['sleep', '1000'], { prompt: 'Hold on' })
  const page = await browser.open(server, `#/agents/${id}`, { width: 390, height: 500, allows: [/500/] })
  const answer = Promise.withResolvers<void>()
  let asked = 0
  await page.route('**/stop', async (route) => {
    asked += 1
    await answer.promise
    await route.fulfill({ status: 500, json: { message: 'The tide is out.' } })
  })
  await tabTo(page, 'Force stop')
  await page.keyboard.press('Enter')
  await tabTo(page, 'Force stop')
  await page.keyboard.press('Enter')
  await page.getByText('Killing, and looking that it is gone').waitFor()
  expect(await focused(page)).toBe('Force stop')
  // Once is enough.
  await page.keyboard.press('Enter')
  answer.resolve()
  const alert = page.getByRole('dialog').getByRole('alert')
  await alert.getByText('The tide is out.').waitFor()
  expect([await focused(page), asked]).toEqual(['Try again', 1])
  expect(await isInSight(alert)).toBe(true)
  await page.unroute('**/stop')
  await page.keyboard.press('Enter')
  await page.locator('.agent-facts').getByText('terminated').waitFor()
  await expect.poll(() => focused(page), patient).toBe('Hold on')
})

it('has the focus at the heading after an Undo', async () => {
  const page = await browser.open(server)
  await page.getByRole('button', { name: 'Launch a synthetic one' }).click()
  await page.getByRole('link', { name: 'World', exact: true }).click()
  await page.getByRole('heading', { level: 1, name: 'World' }).waitFor()
  // It stays while the pointer is in it, however long the way of the keys takes.
  await page.getByRole('button', { name: 'Undo: stop and delete it' }).hover()
  await tabTo(page, 'Undo: stop and delete it')
  await page.keyboard.press('Enter')
  await page.getByText('It was stopped and deleted; nothing of it is left.').waitFor()
  await page.getByRole('button', { name: /^Undo|^Undoing/ }).waitFor({ state: 'detached' })
  expect(await page.evaluate('document.activeElement?.tagName')).toBe('H1')
})
