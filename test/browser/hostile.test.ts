import { expect, it } from 'vitest'
import { useServer } from '../support/shared-server.ts'
import { patient, requireNoSidewaysScroll, seriousViolations, useBrowser } from './support.ts'

const server = useServer()
const browser = useBrowser()

const markup = `<img src=x onerror="document.title='owned'"><script>document.title='owned'</script>`

it('hostile text: the error of a stuck resource shows direction-changing characters as visible text', async () => {
  const id = await server.launch({ type: 'synthetic', prompt: 'Name it' })
  const page = await browser.open(server, '#/system')
  const stuck = { id: 'one', kind: 'temp-folder', name: '/tmp/one', state: 'stuck', dependsOn: [], intendedAt: new Date(), attempts: 1 }
  const error = 'Still present: /tmp/one/\u202egnp.exe cannot be removed.'
  await page.route(`**/api/agents/${id}/resources`, (route) => route.fulfill({ json: [{ ...stuck, error }] }))
  await page.goto(`${server.url}/#/agents/${id}`)
  await page.getByText('Still present: /tmp/one/⟨U+202E⟩gnp.exe cannot be removed.').waitFor()
})

it('hostile text: markup, escape sequences and a megabyte on one line are shown as plain text', async () => {
  const script = `
    process.stdout.write(${JSON.stringify(`${markup}\n`)})
    process.stdout.write('\\u001b[31mred\\u001b[0m \\u0007bell \\u202egnp.exe\\n')
    process.stdout.write('x'.repeat(1_000_000) + 'END\\n')
    setInterval(() => {}, 100_000)`
  const id = await server.command([process.execPath, '-e', script], { prompt: `${markup}\u202e` })
  const page = await browser.open(server, `#/agents/${id}`)
  await page.getByText('Show all 1.0 MB').waitFor()
  await page.getByRole('button', { name: 'Start', exact: true }).click()
  await page.locator('.message--response', { hasText: markup }).waitFor()
  expect(await page.locator('.message img, .message script').count()).toBe(0)
  expect(await page.title()).not.toBe('owned')
  expect(await page.locator('.message__text', { hasText: 'red' }).textContent()).toBe('red ␇bell ⟨U+202E⟩gnp.exe')
  // The page loads the full text of a long message only on demand.
  const held: number = await page.evaluate('document.body.textContent.length')
  expect(held).toBeLessThan(20_000)
  await page.getByText('Show all 1.0 MB').click()
  await expect.poll(async () => (await page.locator('.message__long').textContent())?.length, patient).toBe(1_000_003)
  await page.setViewportSize({ width: 390, height: 844 })
  await requireNoSidewaysScroll(page)
  await page.setViewportSize({ width: 1280, height: 800 })
  await page.goto(`${server.url}/#/agents`)
  await page.getByRole('link', { name: markup.slice(0, 40) }).waitFor()
  expect(await page.locator('td img').count()).toBe(0)
  expect(await seriousViolations(page)).toEqual([])
})
