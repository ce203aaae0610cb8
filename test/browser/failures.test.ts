import { describe, expect, it } from 'vitest'
import { useServer } from '../support/shared-server.ts'
import { patient, useBrowser } from './support.ts'

const server = useServer()
const browser = useBrowser()

const allows = [/400|404|409|500/, /ERR_FAILED/]

describe('failed requests', () => {
  it('failed requests: the list of agents shows the error and loads after a retry', async () => {
    await server.launch({ type: 'synthetic', prompt: 'Still here' })
    const page = await browser.open(server, '#/system', { allows })
    // Wait for the live connection first: when it connects, it loads the data again.
    await page.getByText('live', { exact: true }).waitFor()
    await page.route('**/api/agents?*', (route) => route.fulfill({ status: 500, body: '<html>oops</html>' }))
    await page.route('**/api/agents/active?*', (route) => route.fulfill({ status: 500, body: '' }))
    await page.getByRole('link', { name: 'Agents', exact: true }).click()
    await page.getByText('The server answered with status 500 and no message.').waitFor()
    await page.unroute('**/api/agents?*')
    await page.unroute('**/api/agents/active?*')
    await page.getByRole('button', { name: 'Try again' }).click()
    await page.getByText('Still here').waitFor()
    await expect.poll(() => page.getByRole('alert').count(), patient).toBe(0)
  })

  it('failed requests: the conversation shows the error and loads after a retry', async () => {
    const id = await server.launch({ type: 'synthetic', prompt: 'Talk to me' })
    const page = await browser.open(server, '#/system', { allows })
    // Wait for the live connection first: when it connects, it loads the data again.
    await page.getByText('live', { exact: true }).waitFor()
    await page.route(`**/api/agents/${id}/messages?*`, (route) => route.abort())
    await page.goto(`${server.url}/#/agents/${id}`)
    await page.getByText('The server cannot be reached. Is "ebb serve" still running?').waitFor()
    await page.unroute(`**/api/agents/${id}/messages?*`)
    await page.getByRole('button', { name: 'Try again' }).click()
    await page.getByText('You said: Talk to me').waitFor()
  })

  it('failed requests: an agent deleted elsewhere, an unknown id and an invalid id each show their own message', async () => {
    const id = await server.command(['sleep', '1000'], { prompt: 'Deleted elsewhere' })
    const page = await browser.open(server, `#/agents/${id}`, { allows })
    await page.getByRole('button', { name: 'Delete', exact: true }).click()
    expect((await server.call('DELETE', `/api/agents/${id}?force=true`)).status).toBe(204)
    const emptyText = (): Promise<string | null> => page.locator('.empty').textContent()
    await page.getByText('This agent was deleted.').waitFor()
    expect(await emptyText()).toBe('This agent was deleted.The cleanup history holds the proof that it is gone.Go to the cleanup history')
    await page.reload()
    await page.getByText('This agent was not found.').waitFor()
    expect(await emptyText()).toContain('.If it was deleted, the cleanup history holds the proof that it is gone.')
    await page.goto(`${server.url}/#/agents/${id.slice(0, -4)}`)
    await page.getByText('This is not a valid agent id.').waitFor()
    expect(await emptyText()).toMatch(/^This is not a valid agent id\.A valid id looks like 6f0f7a2e-[0-9a-f-]+; [^.]+\.Go to the agents$/)
  })

  it('failed requests: a refused launch shows the error of the server', async () => {
    const page = await browser.open(server, '#/agents', { allows })
    await page.route('**/api/agents', (route) =>
      route.fulfill({ status: 409, json: { statusCode: 409, code: 'resetting', message: 'The namespace is being reset; try again.' } }),
    )
    await page.getByRole('button', { name: 'Launch a synthetic agent' }).click()
    await page.getByRole('alert').getByText('The namespace is being reset; try again.').waitFor()
  })

  it('failed requests: a failed poll of the active agents shows the error until the next success', async () => {
    await server.command(['sleep', '1000'], { prompt: 'Poll me' })
    const page = await browser.open(server, '#/agents', { allows })
    await page.getByText('Poll me').waitFor()
    await page.route('**/api/agents/active?*', (route) => route.fulfill({ status: 500, json: { message: 'The database is locked.' } }))
    await page.getByRole('alert').getByText('The database is locked.').waitFor()
    await page.unroute('**/api/agents/active?*')
    await expect.poll(() => page.getByRole('alert').count(), patient).toBe(0)
  })

  it('failed requests: a server without a health answer is shown as unknown, not as healthy', async () => {
    const page = await browser.open(server, '#/system', { allows })
    const host = page.getByRole('region', { name: 'This host' })
    await host.getByText('healthy', { exact: true }).waitFor()
    await page.route('**/api/health', (route) => route.abort())
    await host.getByText('unknown', { exact: true }).waitFor()
    expect(await host.getByText('healthy', { exact: true }).count()).toBe(0)
    await page.unroute('**/api/health')
    await host.getByText('healthy', { exact: true }).waitFor()
  })

  it('failed requests: repeated Escape during a running action does not close the dialog, and the error is shown', async () => {
    const id = await server.command(['sleep', '1000'], { prompt: 'Hold on' })
    const page = await browser.open(server, `#/agents/${id}`, { allows })
    const answer = Promise.withResolvers<void>()
    await page.route('**/stop', async (route) => {
      await answer.promise
      await route.fulfill({ status: 500, json: { message: 'The database is locked.' } })
    })
    const dialog = page.getByRole('dialog', { name: 'Stop this agent?' })
    await page.getByRole('button', { name: 'Stop', exact: true }).click()
    await page.getByRole('button', { name: 'Stop agent' }).click()
    await dialog.getByText('Stopping, and checking that everything is gone').waitFor()
    for (let press = 0; press < 6; press++) {
      await page.keyboard.press('Escape')
      await dialog.waitFor()
    }
    answer.resolve()
    await dialog.getByRole('alert').getByText('The database is locked.').waitFor()
    for (let press = 0; press < 3; press++) {
      await page.keyboard.press('Escape')
      await dialog.waitFor({ state: 'detached' })
      await page.getByRole('button', { name: 'Stop', exact: true }).click()
      await dialog.waitFor()
    }
  })

  it('failed requests: an unknown address shows "page does not exist"', async () => {
    const page = await browser.open(server, '#/nowhere/at/all', { allows })
    await page.getByText('This page does not exist.').waitFor()
  })
})
