import { describe, expect, it } from 'vitest'
import { useServer } from '../support/shared-server.ts'
import { patient, useBrowser } from './support.ts'

const server = useServer()
const browser = useBrowser()

const allows = [/400|404|409|500/, /ERR_FAILED/]

describe('what goes wrong is a sentence, with another try', () => {
  it('where the list cannot be had', async () => {
    await server.launch({ type: 'synthetic', prompt: 'Still here' })
    const page = await browser.open(server, '#/world', { allows })
    // A connection that comes later would try again by itself.
    await page.getByText('live', { exact: true }).waitFor()
    await page.route('**/api/agents?*', (route) => route.fulfill({ status: 500, body: '<html>oops</html>' }))
    await page.route('**/api/agents/active?*', (route) => route.fulfill({ status: 500, body: '' }))
    await page.getByRole('link', { name: 'Agents', exact: true }).click()
    await page.getByText('The server answered with 500 and said nothing more.').waitFor()
    await page.unroute('**/api/agents?*')
    await page.unroute('**/api/agents/active?*')
    await page.getByRole('button', { name: 'Try again' }).click()
    await page.getByText('Still here').waitFor()
    await expect.poll(() => page.getByRole('alert').count(), patient).toBe(0)
  })

  it('where a part of the conversation cannot be had', async () => {
    const id = await server.launch({ type: 'synthetic', prompt: 'Talk to me' })
    const page = await browser.open(server, '#/world', { allows })
    // A connection that comes later would try again by itself.
    await page.getByText('live', { exact: true }).waitFor()
    await page.route(`**/api/agents/${id}/messages?*`, (route) => route.abort())
    await page.goto(`${server.url}/#/agents/${id}`)
    await page.getByText('The server cannot be reached; is "ebb serve" still running?').waitFor()
    await page.unroute(`**/api/agents/${id}/messages?*`)
    await page.getByRole('button', { name: 'Try again' }).click()
    await page.getByText('You said: Talk to me').waitFor()
  })

  it('where somebody else has deleted the agent meanwhile', async () => {
    const id = await server.command(['sleep', '1000'], { prompt: 'Whose am I?' })
    const page = await browser.open(server, `#/agents/${id}`, { allows })
    await page.getByRole('button', { name: 'Delete', exact: true }).click()
    expect((await server.call('DELETE', `/api/agents/${id}?force=true`)).status).toBe(204)
    const words = (): Promise<string | null> => page.locator('.empty').textContent()
    await page.getByText('This agent was deleted.').waitFor()
    expect(await words()).toBe('This agent was deleted.The cleanup history has the proof that it is gone.To the cleanup history')
    await page.reload()
    await page.getByText('This agent is not here.').waitFor()
    expect(await words()).toContain('.If there was one and it was deleted, the cleanup history has the proof that it is gone.')
    await page.goto(`${server.url}/#/agents/${id.slice(0, -4)}`)
    await page.getByText('No agent has such an id.').waitFor()
    expect(await words()).toMatch(/^No agent has such an id\.An id is as in 6f0f7a2e-[0-9a-f-]+; [^.]+\.To the agents$/)
  })

  it('where a launch is refused, and nothing is left of it', async () => {
    const page = await browser.open(server, '#/agents', { allows })
    await page.route('**/api/agents', (route) =>
      route.fulfill({ status: 409, json: { statusCode: 409, code: 'resetting', message: 'The namespace is being reset; try again.' } }),
    )
    await page.getByRole('button', { name: 'Launch a synthetic one' }).click()
    await page.getByRole('alert').getByText('The namespace is being reset; try again.').waitFor()
  })

  it('where the look at those that live cannot be had', async () => {
    await server.command(['sleep', '1000'], { prompt: 'Do I live?' })
    const page = await browser.open(server, '#/agents', { allows })
    await page.getByText('Do I live?').waitFor()
    await page.route('**/api/agents/active?*', (route) => route.fulfill({ status: 500, json: { message: 'The tide is out.' } }))
    await page.getByRole('alert').getByText('The tide is out.').waitFor()
    await page.unroute('**/api/agents/active?*')
    await expect.poll(() => page.getByRole('alert').count(), patient).toBe(0)
  })

  it('where the server does not say how it is: nobody calls it well', async () => {
    const page = await browser.open(server, '#/world', { allows })
    const host = page.getByRole('region', { name: 'This host' })
    await host.getByText('well', { exact: true }).waitFor()
    await page.route('**/api/health', (route) => route.abort())
    await host.getByText('not known', { exact: true }).waitFor()
    expect(await host.getByText('well', { exact: true }).count()).toBe(0)
    await page.unroute('**/api/health')
    await host.getByText('well', { exact: true }).waitFor()
  })

  it('also where somebody has pressed Escape meanwhile, again and again', async () => {
    const id = await server.command(['sleep', '1000'], { prompt: 'Hold on' })
    const page = await browser.open(server, `#/agents/${id}`, { allows })
    const answer = Promise.withResolvers<void>()
    await page.route('**/stop', async (route) => {
      await answer.promise
      await route.fulfill({ status: 500, json: { message: 'The tide is out.' } })
    })
    const dialog = page.getByRole('dialog', { name: 'Stop this agent?' })
    await page.getByRole('button', { name: 'Stop', exact: true }).click()
    await page.getByRole('button', { name: 'Stop it' }).click()
    await dialog.getByText('Stopping, and looking that it is gone').waitFor()
    for (let press = 0; press < 6; press++) {
      await page.keyboard.press('Escape')
      await dialog.waitFor()
    }
    answer.resolve()
    await dialog.getByRole('alert').getByText('The tide is out.').waitFor()
    for (let press = 0; press < 3; press++) {
      await page.keyboard.press('Escape')
      await dialog.waitFor({ state: 'detached' })
      await page.getByRole('button', { name: 'Stop', exact: true }).click()
      await dialog.waitFor()
    }
  })

  it('and there is no page that is not ours', async () => {
    const page = await browser.open(server, '#/nowhere/at/all', { allows })
    await page.getByText('There is no such page.').waitFor()
  })
})
