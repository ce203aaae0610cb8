import { expect, it } from 'vitest'
import { startServer } from '../support/server.ts'
import { useBrowser } from './support.ts'

const browser = useBrowser()

it('hanging server: the page reports the lost connection, stays usable during a stop, and shows the result when the server resumes', async () => {
  await using server = await startServer()
  const id = await server.command(['sleep', '1000'], { prompt: 'Stop me if you can' })
  const page = await browser.open(server, `#/agents/${id}`)
  await page.getByText('live', { exact: true }).waitFor()
  await page.getByRole('region', { name: 'Processes' }).getByText('sleep').first().waitFor()
  server.ebb.signal('SIGSTOP')
  try {
    await page.getByRole('button', { name: 'Stop', exact: true }).click()
    await page.getByRole('button', { name: 'Stop agent' }).click()
    await page.getByRole('button', { name: 'Continue in background' }).click()
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    await page.getByText('Stopping, and checking that everything is gone: continues in the background.').waitFor()
    await page.getByText('Not connected to the server.').waitFor({ timeout: 18_000 })
    // The page stays usable: navigation works.
    await page.getByRole('link', { name: 'Cleanup', exact: true }).click()
    await page.getByRole('heading', { level: 1, name: 'Cleanup' }).waitFor()
  } finally {
    server.ebb.signal('SIGCONT')
  }
  await page.getByText(/Stopped in .+ verified gone/).waitFor()
  await page.getByText('live', { exact: true }).waitFor()
  expect(await page.getByRole('heading', { level: 1 }).textContent()).toBe('Cleanup')
  await page.close()
})
