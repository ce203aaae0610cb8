import { expect, it } from 'vitest'
import { startServer } from '../support/server.ts'
import { useBrowser } from './support.ts'

const browser = useBrowser()

it('a server that hangs is told to be silent, nobody is held by what was sent to it, and its end is told when it goes on', async () => {
  await using server = await startServer()
  const id = await server.command(['sleep', '1000'], { prompt: 'Stop me if you can' })
  const page = await browser.open(server, `#/agents/${id}`)
  await page.getByText('live', { exact: true }).waitFor()
  await page.getByRole('region', { name: 'Processes' }).getByText('sleep').first().waitFor()
  server.ebb.signal('SIGSTOP')
  try {
    await page.getByRole('button', { name: 'Stop', exact: true }).click()
    await page.getByRole('button', { name: 'Stop it' }).click()
    await page.getByRole('button', { name: 'Leave; it goes on by itself' }).click()
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    await page.getByText('Stopping, and looking that it is gone: it goes on by itself.').waitFor()
    await page.getByText('Not connected; trying again.').waitFor({ timeout: 18_000 })
    // Nobody is held: all else can be gone to.
    await page.getByRole('link', { name: 'Cleanup', exact: true }).click()
    await page.getByRole('heading', { level: 1, name: 'Cleanup' }).waitFor()
  } finally {
    server.ebb.signal('SIGCONT')
  }
  await page.getByText(/Stopped in .+ seen gone/).waitFor()
  await page.getByText('live', { exact: true }).waitFor()
  expect(await page.getByRole('heading', { level: 1 }).textContent()).toBe('Cleanup')
  await page.close()
})
