import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { describe, expect, it } from 'vitest'
import { useServer } from '../support/shared-server.ts'
import { isFocused, patient, requireNoSidewaysScroll, reviewScreenshot, seriousViolations, useBrowser } from './support.ts'

const server = useServer()
const browser = useBrowser()

const rows = (page: Page) => page.getByRole('table', { name: 'Agents' }).locator('tbody tr')
const waiting = (text: string, more: object = {}) => ({
  type: 'synthetic',
  prompt: text,
  configuration: { schedule: [{ delay: 20, type: 'message', data: { content: 'Waiting.' } }] },
  ...more,
})

async function someAgents(): Promise<void> {
  await server.launch(waiting('Rename the harbour to haven', { namespace: 'night' }))
  await server.launch({ type: 'synthetic', prompt: 'Say three lines and end' })
  await server.command(['sh', '-c', 'echo building; sleep 1000'], { prompt: 'Build everything' })
  await server.command(['sh', '-c', 'echo no such target >&2; exit 2'], { prompt: 'Deploy to staging' })
}

describe('agents view', () => {
  it('agents view: without agents it explains how to launch one, and launches one with a click', async () => {
    const page = await browser.open(server)
    await page.getByText('No agents yet.').waitFor()
    expect(await page.locator('.snippet').textContent()).toContain(`curl -X POST ${server.url}/api/agents`)
    await reviewScreenshot(page, 'agents-empty')
    await page.getByRole('button', { name: 'Launch a synthetic agent' }).click()
    await page.getByRole('heading', { level: 1, name: 'Show me what an agent looks like.' }).waitFor()
    await page.getByText('I list the files first.').waitFor()
  })

  it('agents view: agents launched, stopped and deleted elsewhere appear, change and disappear live', async () => {
    const page = await browser.open(server)
    const id = await server.launch(waiting('Somebody else launched this'))
    const row = rows(page).filter({ hasText: 'Somebody else launched this' })
    await row.getByText('running').waitFor()
    await server.post(`/api/agents/${id}/stop`, {})
    await row.getByText('terminated').waitFor()
    expect((await server.call('DELETE', `/api/agents/${id}`)).status).toBe(204)
    await row.waitFor({ state: 'detached' })
  })

  it('agents view: search and filters narrow the list, and Back restores them', async () => {
    await someAgents()
    const page = await browser.open(server)
    await expect.poll(() => rows(page).count(), patient).toBe(4)
    await rows(page).filter({ hasText: 'Deploy to staging' }).getByText('failed').waitFor()
    await page.keyboard.press('/')
    await page.keyboard.type('harbour HAVEN')
    await expect.poll(() => rows(page).count(), patient).toBe(1)
    await page.getByRole('searchbox').fill('')
    await page.getByLabel('Status').selectOption('ended')
    await expect.poll(() => rows(page).allInnerTexts(), patient).toHaveLength(2)
    await page.getByLabel('Provider').selectOption('command')
    await expect.poll(() => rows(page).count(), patient).toBe(1)
    await rows(page).getByRole('link').click()
    await page.getByRole('heading', { level: 1, name: 'Deploy to staging' }).waitFor()
    await page.goBack()
    await expect.poll(() => rows(page).count(), patient).toBe(1)
    await page.getByLabel('Provider').selectOption('synthetic')
    await page.getByLabel('Status').selectOption('stuck')
    await page.getByText('No matching agents.').waitFor()
    await page.getByRole('button', { name: 'Show all' }).click()
    await page.getByLabel('Namespace').selectOption('night')
    await expect.poll(() => rows(page).count(), patient).toBe(1)
  })

  it('agents view: filters and search are stored in the address, and follow it', async () => {
    await someAgents()
    const page = await browser.open(server)
    await rows(page).filter({ hasText: 'Deploy to staging' }).getByText('failed').waitFor()
    await page.getByRole('searchbox').fill('harbour')
    await expect.poll(() => rows(page).count(), patient).toBe(1)
    expect(page.url()).toContain('#/agents?q=harbour')
    await page.getByRole('link', { name: 'Agents', exact: true }).click()
    await expect.poll(() => rows(page).count(), patient).toBe(4)
    expect(await page.getByRole('searchbox').inputValue()).toBe('')
    await page.evaluate(`window.location.hash = '#/agents?status=failed'`)
    await expect.poll(() => rows(page).count(), patient).toBe(1)
    expect(await page.getByLabel('Status').inputValue()).toBe('failed')
    await rows(page).getByRole('link').click()
    await page.getByRole('heading', { level: 1, name: 'Deploy to staging' }).waitFor()
    await page.getByRole('link', { name: '← Agents' }).click()
    await expect.poll(() => rows(page).count(), patient).toBe(1)
    expect(page.url()).toContain('#/agents?status=failed')
    // The focus returns to the same row, as with the browser's Back button.
    await expect.poll(() => isFocused(rows(page).getByRole('link')), patient).toBe(true)
  })

  it('agents view: a right-to-left name does not reorder the labels beside it', async () => {
    const prompt = 'שלום עולם 12'
    await server.launch(waiting(prompt, { requestId: '34-request' }))
    const page = await browser.open(server)
    await rows(page).filter({ hasText: prompt }).waitFor()
    // Horizontal positions: the name must end before its labels (id and request) begin.
    const [nameEnd, labelsStart, parts] = await page.evaluate<[number, number, string]>(`(() => {
      const link = document.querySelector('td.main a'), labels = link.querySelector('.agent-labels')
      const rectOf = (node) => { const range = document.createRange(); range.selectNodeContents(node); return range.getBoundingClientRect() }
      return [rectOf(link.firstChild).right, rectOf(labels).left, labels.textContent]
    })()`)
    expect(labelsStart).toBeGreaterThanOrEqual(nameEnd)
    expect(parts).toMatch(/^[0-9a-f]{8} · 34-request$/)
  })

  it('agents view: with many rows only the visible ones are rendered, and the keyboard reaches all of them', async () => {
    const many = Array.from({ length: 260 }, (_, index) => ({ type: 'synthetic', prompt: `Agent number ${index + 1}.` }))
    for (const body of many) await server.launch(body)
    const page = await browser.open(server)
    await page.getByText('260 agents').waitFor()
    expect(await rows(page).count()).toBeLessThan(100)
    for (let step = 0; step < 120; step++) await page.keyboard.press('j')
    await expect.poll(() => page.evaluate('document.activeElement?.textContent'), patient).toContain('Agent number 141.')
    await page.keyboard.press('k')
    await page.keyboard.press('ArrowDown')
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { level: 1, name: 'Agent number 141.' }).waitFor()
    await page.goBack()
    await expect.poll(() => page.evaluate('document.activeElement?.textContent'), patient).toContain('Agent number 141.')
  })

  it('agents view: with more active agents than one page holds, the oldest is kept current without events', async () => {
    const go = join(server.home, 'go')
    const script = 'until [ -e "$0" ]; do sleep 0.05; done; seq 1 41; exec sleep 1000'
    const id = await server.command(['sh', '-c', script, go], { prompt: 'The oldest of all' })
    for (let number = 1; number <= 255; number++) await server.launch(waiting(`Younger, number ${number}.`))
    const page = await browser.open(server, '#/system')
    await page.routeWebSocket(/socket\.io/, (socket) => {
      const upstream = socket.connectToServer()
      upstream.onMessage((message) => {
        if (!String(message).includes('"agent:')) socket.send(message)
      })
    })
    await page.goto(`${server.url}/?no-events#/agents`)
    await page.getByText('256 agents').waitFor()
    await page.getByRole('searchbox').fill('The oldest')
    const row = rows(page).filter({ hasText: 'The oldest of all' })
    await row.getByText('running').waitFor()
    writeFileSync(go, '')
    await row.getByText('42', { exact: true }).waitFor()
    await server.post(`/api/agents/${id}/stop`, {})
    await row.getByText('terminated').waitFor()
  })

  for (const colorScheme of ['light', 'dark'] as const)
    it(`agents view: no serious axe violations in ${colorScheme} mode, wide or narrow`, async () => {
      await someAgents()
      const page = await browser.open(server, '#/agents', { colorScheme })
      await rows(page).filter({ hasText: 'Deploy to staging' }).getByText('failed').waitFor()
      await rows(page).filter({ hasText: 'Say three lines' }).getByText('completed').waitFor()
      await expect.poll(() => rows(page).filter({ hasText: 'Build everything' }).textContent(), patient).toMatch(/[kM]B/)
      await reviewScreenshot(page, `agents${colorScheme === 'dark' ? '-dark' : ''}`)
      expect(await seriousViolations(page)).toEqual([])
      await page.setViewportSize({ width: 390, height: 844 })
      await reviewScreenshot(page, `agents-narrow-${colorScheme}`)
      await requireNoSidewaysScroll(page)
      expect(await seriousViolations(page)).toEqual([])
      await page.getByRole('button', { name: 'Launch an agent' }).click()
      await page.getByRole('radio', { name: /Synthetic/ }).check()
      await reviewScreenshot(page, `launch-narrow-${colorScheme}`)
      await requireNoSidewaysScroll(page)
      expect(await seriousViolations(page)).toEqual([])
    })
})
