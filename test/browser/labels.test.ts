import { expect, it } from 'vitest'
import { useServer } from '../support/shared-server.ts'
import { useBrowser } from './support.ts'

/** The dashboard knows no placement and no kind by name. */

const server = useServer()
const browser = useBrowser()

const placement = { isAvailable: true, isDefault: false, isRemote: false, hasTerminal: false, hasHost: false }
const answer = {
  placements: [
    { ...placement, name: 'moon', title: 'The moon' },
    { ...placement, name: 'mars', title: 'Mars', isAvailable: false },
    { ...placement, name: 'process', title: 'Right here', isDefault: true },
  ],
  kinds: [{ name: 'log', title: 'Diary', endsProcesses: false, isOnOtherHost: false }],
}

it('labels: placements and kinds have the names that the server gives them, and unknown ones their own', async () => {
  const id = await server.command(['sleep', '1000'])
  const page = await browser.open(server)
  await page.route('**/api/placements', (route) => route.fulfill({ json: answer }))
  await page.goto(`${server.url}/#/agents/${id}`)
  await page.reload()
  await page.getByText('Right here', { exact: true }).waitFor()
  const resources = page.getByRole('region', { name: 'Resources' })
  await resources.getByText('Diary', { exact: true }).first().waitFor()
  await resources.getByText('process-tree', { exact: true }).waitFor()

  await page.getByRole('link', { name: 'Agents', exact: true }).click()
  await page.getByRole('button', { name: 'Launch an agent' }).click()
  const choices = page.getByLabel('Placement', { exact: true }).getByRole('option')
  expect(await choices.allTextContents()).toEqual(['Right here (default)', 'The moon'])
})
