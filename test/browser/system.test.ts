import { hostname } from 'node:os'
import type { Page } from 'playwright-core'
import { describe, expect, it } from 'vitest'
import { fixture } from '../support/fixtures.ts'
import { startEbb, temporaryHome } from '../support/home.ts'
import { type Json, startServer } from '../support/server.ts'
import { useServer } from '../support/shared-server.ts'
import { look, patient, requireNoSidewaysScroll, screenshot, seriousViolations, tabTo, useBrowser } from './support.ts'

const server = useServer()
const browser = useBrowser()

async function sleeping(more: object = {}): Promise<string> {
  const id = await server.command(['sh', '-c', 'echo up; sleep 1000 & wait'], more)
  await server.get(`/api/agents/${id}/messages?since=1&wait=15000`)
  return id
}

const verdict = (page: Page) => page.getByRole('region', { name: 'Is the world clean' })

describe('the verdict', () => {
  it('says that the world is clean, that agents are at work, and that only the record stays', async () => {
    const page = await browser.open(server, '#/world')
    await verdict(page).getByText('The world is clean').waitFor()
    await verdict(page)
      .getByText(/Looked (just now|\d+ s ago), in the world.*vouches/)
      .waitFor()
    const id = await sleeping()
    await verdict(page).getByText('Agents are at work').waitFor()
    const kinds = page.getByRole('table', { name: 'Resources by kind' })
    await kinds.getByRole('row', { name: /process-tree/ }).waitFor()
    await screenshot(page, 'world')
    await server.post(`/api/agents/${id}/stop`)
    await verdict(page).getByText('Nothing of an agent is left').waitFor()
    await verdict(page)
      .getByText(/1 agent on record with \d+ messages/)
      .waitFor()
    expect(await kinds.count()).toBe(0)
  })

  it('is of one namespace where one is chosen', async () => {
    await sleeping({ namespace: 'busy' })
    const ended = await sleeping({ namespace: 'idle' })
    await server.post(`/api/agents/${ended}/stop`)
    const page = await browser.open(server, '#/world')
    await verdict(page).getByText('Agents are at work').waitFor()
    // What stands there stays until the other answer has come, and no reset can be meant for the wrong one.
    await page.evaluate(`window.sameVerdict = document.querySelector('.verdict')`)
    let answer = (): void => {}
    const held = new Promise<void>((resolve) => {
      answer = resolve
    })
    await page.route('**/api/cleanup/status?namespace=idle', async (route) => {
      await held
      await route.continue()
    })
    await page.getByLabel('Namespace').selectOption('idle')
    await page.getByText('Looking at idle…').waitFor()
    expect(await verdict(page).getByText('Agents are at work').count()).toBe(1)
    expect(await page.getByRole('button', { name: 'Reset…' }).isDisabled()).toBe(true)
    answer()
    await verdict(page).getByText('Nothing of an agent is left').waitFor()
    expect(await page.evaluate<boolean>('window.sameVerdict.isConnected')).toBe(true)
    expect(await page.getByRole('button', { name: 'Reset…' }).isDisabled()).toBe(false)
    await page.getByLabel('Namespace').selectOption('busy')
    await verdict(page).getByText('Agents are at work').waitFor()
  })

  it('has its namespace in the address, and follows it', async () => {
    await sleeping({ namespace: 'busy' })
    const page = await browser.open(server, '#/world')
    await page.getByLabel('Namespace').selectOption('busy')
    await expect.poll(() => page.url(), patient).toMatch(/#\/world\?namespace=busy$/)
    await page.reload()
    await verdict(page).getByText('Agents are at work').waitFor()
    expect(await page.getByLabel('Namespace').inputValue()).toBe('busy')
    // Also one in which nobody is.
    await page.evaluate(`window.location.hash = '#/world?namespace=nobody'`)
    await verdict(page).getByText('The world is clean').waitFor()
    expect(await page.getByLabel('Namespace').inputValue()).toBe('nobody')
    await page.getByLabel('Namespace').selectOption('')
    await verdict(page).getByText('Agents are at work').waitFor()
    expect(page.url()).toMatch(/#\/world$/)
  })

  it('is looked at again when one asks', async () => {
    const page = await browser.open(server, '#/world')
    await verdict(page).waitFor()
    const asked = page.waitForResponse((response) => response.url().includes('/api/cleanup/status'))
    await page.getByRole('button', { name: 'Look now' }).click()
    expect((await asked).status()).toBe(200)
  })
})

it('does not ask for the list of agents at each event, and still learns of a new namespace', async () => {
  const page = await browser.open(server, '#/world')
  // What the first page still asks for is not counted.
  await page.goto('about:blank')
  const asked: string[] = []
  page.on('request', (request) => {
    if (/\/api\/agents(\/active)?(\?|$)/.test(request.url())) asked.push(request.url())
  })
  await page.goto(`${server.url}/#/world`)
  // At the start, and once more when it hears events: what happened between, nobody told.
  await expect.poll(() => asked.length, patient).toBe(2)
  await verdict(page).getByText('The world is clean').waitFor()
  for (const name of ['first', 'second']) {
    const id = await sleeping({ namespace: name })
    await page.getByLabel('Namespace').getByRole('option', { name }).waitFor({ state: 'attached' })
    await server.post(`/api/agents/${id}/stop`)
  }
  await verdict(page).getByText('Nothing of an agent is left').waitFor()
  expect(asked).toHaveLength(2)
})

it('a runner has a card of its own, which says plainly when it cannot be reached', { timeout: 180_000 }, async () => {
  const runner = await startServer(['--runner'])
  await using own = await startServer(['--remote-url', runner.url])
  const page = await browser.open(own, '#/world')
  const card = page.getByRole('region', { name: `The runner ${new URL(runner.url).host}` })
  await card.getByText('well', { exact: true }).waitFor()
  runner.ebb.signal('SIGKILL')
  await runner.ebb.ended
  await card.getByText('unreachable', { exact: true }).waitFor()
  await card.getByText('Nobody can say what runs there.').waitFor()
  await page.getByRole('region', { name: 'This host' }).getByText('well', { exact: true }).waitFor()
  expect(await seriousViolations(page)).toEqual([])
  await card.scrollIntoViewIfNeeded()
  await look(page, 'world-hosts')
  await page.close()
})

it('a runner that is silent is in the verdict and in the numbers, and this host does not vouch for what is there', async () => {
  await using runner = await startServer(['--runner'])
  await using own = await startServer(['--remote-url', runner.url])
  const { host } = new URL(runner.url)
  const id = await own.command(['sleep', '1000'], { placement: 'remote', namespace: 'far' })
  await own.command(['sleep', '1000'], { namespace: 'near' })
  const page = await browser.open(own, '#/world')
  await verdict(page).getByText('Agents are at work').waitFor()
  await verdict(page).getByText('For agents elsewhere the host that they are on vouches').waitFor()
  runner.ebb.signal('SIGSTOP')
  try {
    await verdict(page).getByText('A host is unreachable').waitFor()
    await verdict(page).getByText(`Nobody can say what runs on ${host}`).waitFor()
    await verdict(page).getByText('not known', { exact: true }).waitFor()
    await verdict(page).getByText('For agents elsewhere nobody vouches').waitFor()
    expect(await verdict(page).textContent()).not.toContain('nothing is stuck')
    expect(await unreachable(page)).toBe('1')
    expect(await seriousViolations(page)).toEqual([])
    await look(page, 'world-unreachable')
    // It is the business of those who have something there.
    await page.getByLabel('Namespace').selectOption('near')
    await verdict(page).getByText('Agents are at work').waitFor()
    expect(await unreachable(page)).toBe('0')
    await page.getByLabel('Namespace').selectOption('far')
    await verdict(page).getByText('A host is unreachable').waitFor()
  } finally {
    runner.ebb.signal('SIGCONT')
  }
  await verdict(page).getByText('Agents are at work').waitFor()
  await own.post(`/api/agents/${id}/stop`)
  await page.close()
})

it('what only waits for something stuck is told as waiting, and not as an error', async () => {
  await using runner = await startServer(['--runner'])
  await using own = await startServer(['--remote-url', runner.url])
  const id = await own.command(['sh', '-c', 'echo up; exec sleep 1000'], { placement: 'remote' })
  await own.get(`/api/agents/${id}/messages?since=1&wait=15000`)
  runner.ebb.signal('SIGSTOP')
  try {
    await own.post(`/api/agents/${id}/stop`, { grace: 0 })
    const page = await browser.open(own, '#/world')
    await verdict(page)
      .getByText(/^1 stuck resource, \d waiting for what depends on them\. Each is named below\./)
      .waitFor()
    await page.getByRole('region', { name: /^Waiting: it goes when what depends on it is gone/ }).waitFor()
    expect(await page.getByRole('region', { name: /^Held back/ }).count()).toBe(0)
    expect(await figure(page, 'held back')).toBe('0')
    expect(await seriousViolations(page)).toEqual([])
    await look(page, 'world-waiting')
    await page.getByRole('link', { name: 'Cleanup', exact: true }).first().click()
    const stuck = page.getByRole('region', { name: 'What is stuck' })
    await stuck.getByText(/^1 resource could not be released since (\d+ \w+, )?\d\d:\d\d/).waitFor()
    await stuck.getByText(/^\d more waits? for it\.$/).waitFor()
    await page.getByRole('table', { name: 'Closes' }).getByRole('link').first().click()
    const log = page.getByRole('row', { name: /^(log|file)/ }).first()
    await log.getByText('waits', { exact: true }).waitFor()
    expect(await page.getByRole('row').locator('.fall__error').count()).toBe(1)
    expect(await seriousViolations(page)).toEqual([])
    await look(page, 'close-waiting')
    await page.close()
  } finally {
    runner.ebb.signal('SIGCONT')
  }
  await own.post(`/api/agents/${id}/stop`, { force: true })
})

const figure = (page: Page, name: string): Promise<string | null> =>
  page.locator('.figures__one').filter({ hasText: name }).locator('dd').textContent()
const unreachable = (page: Page): Promise<string | null> => figure(page, 'unreachable')

it('the host is told with what it can do', async () => {
  const page = await browser.open(server, '#/world')
  const host = page.getByRole('region', { name: 'This host' })
  await host.getByRole('heading', { name: hostname() }).waitFor()
  const text = await host.textContent()
  const health: Json = await server.get('/api/health')
  for (const one of [health.containment, health.instanceId, health.version, ...health.placements]) expect(text).toContain(one)
})

describe('the reaper', () => {
  it('says what it would take, and runs when one means it', async () => {
    const page = await browser.open(server, '#/world')
    const reaper = page.getByRole('region', { name: 'The reaper' })
    await reaper.getByRole('button', { name: 'What would it take?' }).click()
    await reaper.getByText('There is nothing for it to take.').waitFor()
    await reaper.getByRole('button', { name: 'Run it now' }).click()
    await page.getByRole('dialog').getByText('Agents that are at work').waitFor()
    await page.getByRole('dialog').getByRole('button', { name: 'Run the reaper' }).click()
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    await reaper.getByText('There is nothing for it to take.').waitFor()
  })
})

describe('a reset', () => {
  it('shows what will go, wants a word while something lives, and is seen until its proof', { timeout: 180_000 }, async () => {
    const deaf = await launchDeaf()
    const other = await sleeping({ namespace: 'two' })
    const page = await browser.open(server, '#/world')
    await page.getByLabel('Namespace').selectOption('one')
    await page.getByRole('button', { name: 'Reset…' }).click()
    const dialog = page.getByRole('dialog', { name: 'Reset the namespace one' })
    await dialog.getByText(`End 1 agent: agent ${deaf.slice(0, 8)}`).waitFor()
    await dialog.getByText(/Release .*1 process-tree/).waitFor()
    const promised = await dialog.getByText(/Delete 1 agent from the record, \d+ messages/).textContent()
    await dialog.getByText('It cannot be undone').waitFor()
    const action = dialog.getByRole('button', { name: 'Reset', exact: true })
    expect(await action.isDisabled()).toBe(true)
    await dialog.getByLabel(/Something lives/).fill('on')
    expect(await action.isDisabled()).toBe(true)
    await dialog.getByLabel(/Something lives/).fill('one')
    expect(await seriousViolations(page)).toEqual([])
    await action.click()
    const reset = page.getByRole('region', { name: 'The reset' })
    await reset.getByText('under way').waitFor()
    await reset.locator('.bar-piece--open').first().waitFor({ state: 'attached' })
    await reset.getByText('clean', { exact: true }).waitFor()
    // What was promised was done, and that is said.
    await reset.getByText(`Deleted from the record: 1 agent and ${promised?.match(/\d+ messages/)?.[0]}.`).waitFor()
    await reset
      .getByRole('row', { name: /process-tree/ })
      .getByText('released', { exact: true })
      .waitFor()
    await verdict(page).getByText('The world is clean').waitFor()
    await reset.getByRole('button', { name: 'Done' }).click()
    await reset.waitFor({ state: 'detached' })
    expect((await server.call('GET', `/api/agents/${deaf}`)).status).toBe(404)
    expect(await server.get(`/api/agents/${other}/status`)).toMatchObject({ status: 'running' })
  })

  it('wants no word when nothing lives, and can be left', async () => {
    const id = await sleeping()
    await server.post(`/api/agents/${id}/stop`)
    const page = await browser.open(server, '#/world')
    await verdict(page).getByText('Nothing of an agent is left').waitFor()
    const button = page.getByRole('button', { name: 'Reset…' })
    await button.focus()
    await page.keyboard.press('Enter')
    await page.getByRole('dialog').getByText('End no agent: none lives').waitFor()
    await page.keyboard.press('Escape')
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    expect(await page.evaluate<string>('document.activeElement.innerText')).toBe('Reset…')
    await page.keyboard.press('Enter')
    // Until it is known that nobody lives, the button cannot be reached.
    await page.getByRole('dialog').getByText('End no agent: none lives').waitFor()
    await tabTo(page, 'Reset')
    await page.keyboard.press('Enter')
    await verdict(page).getByText('The world is clean').waitFor()
  })

  it('of a server without test endpoints ends what lives and keeps the record, and says so', async () => {
    const ebb = startEbb(['serve', '--port', '0', '--json'], { home: temporaryHome(), deadlineMs: 120_000 })
    await ebb.says('\n')
    const { url } = JSON.parse(ebb.output().split('\n')[0] ?? '') as { url: string }
    const body = JSON.stringify({ type: 'command', prompt: '', configuration: { command: ['sleep', '1000'] } })
    const launched = await fetch(`${url}/api/agents`, { method: 'POST', headers: { 'content-type': 'application/json' }, body })
    const { id } = (await launched.json()) as { id: string }
    const page = await browser.open({ url }, '#/world')
    await page.getByRole('button', { name: 'End everything…' }).click()
    const dialog = page.getByRole('dialog', { name: 'End everything in every namespace' })
    await dialog.getByText('The agents on record, their messages, and the archives of their logs').waitFor()
    await dialog.getByLabel(/Something lives/).fill('everything')
    await dialog.getByRole('button', { name: 'End everything' }).click()
    const reset = page.getByRole('region', { name: 'The reset' })
    await reset.getByText('clean', { exact: true }).waitFor()
    expect(await reset.getByText('Deleted from the record').count()).toBe(0)
    await verdict(page).getByText('Nothing of an agent is left').waitFor()
    const kept = (await (await fetch(`${url}/api/agents/${id}`)).json()) as { status: string }
    expect(kept.status).toBe('terminated')
    await page.close()
    ebb.signal('SIGTERM')
    await ebb.ended
  })
})

async function launchDeaf(): Promise<string> {
  const id = await server.command([fixture('ignores-sigterm'), fixture('waits')], { namespace: 'one' })
  await server.get(`/api/agents/${id}/messages?since=1&wait=15000`)
  return id
}

describe('with something in it', () => {
  for (const colorScheme of ['light', 'dark'] as const)
    it(`in ${colorScheme} has nothing that axe calls serious, and fits a narrow page`, async () => {
      await sleeping()
      const page = await browser.open(server, '#/world', { colorScheme })
      await verdict(page).getByText('Agents are at work').waitFor()
      expect(await seriousViolations(page)).toEqual([])
      await page.setViewportSize({ width: 390, height: 800 })
      expect(await seriousViolations(page)).toEqual([])
      await requireNoSidewaysScroll(page)
      await look(page, `world-narrow-${colorScheme}`)
    })
})
