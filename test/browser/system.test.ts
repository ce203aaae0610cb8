import { hostname } from 'node:os'
import type { Page } from 'playwright-core'
import { describe, expect, it } from 'vitest'
import { startEbb, temporaryHome } from '../support/home.ts'
import { type Json, startServer } from '../support/server.ts'
import { useServer } from '../support/shared-server.ts'
import {
  launchUnstoppable,
  patient,
  requireNoSidewaysScroll,
  reviewScreenshot,
  screenshot,
  seriousViolations,
  tabTo,
  useBrowser,
} from './support.ts'

const server = useServer()
const browser = useBrowser()

async function sleeping(more: object = {}): Promise<string> {
  const id = await server.command(['sh', '-c', 'echo up; sleep 1000 & wait'], more)
  await server.get(`/api/agents/${id}/messages?since=1&wait=15000`)
  return id
}

const verdict = (page: Page) => page.getByRole('region', { name: 'System status' })

describe('system verdict', () => {
  it('system verdict: clean, agents running, and only records left', async () => {
    const page = await browser.open(server, '#/system')
    await verdict(page).getByText('The system is clean').waitFor()
    await verdict(page)
      .getByText(/Checked (just now|\d+ s ago), by observing the system.*Proof on this host/)
      .waitFor()
    const id = await sleeping()
    await verdict(page).getByText('Agents are running').waitFor()
    const kinds = page.getByRole('table', { name: 'Resources by kind' })
    await kinds.getByRole('row', { name: /Process tree/ }).waitFor()
    await screenshot(page, 'system')
    await server.post(`/api/agents/${id}/stop`)
    await verdict(page).getByText('No resources are left').waitFor()
    await verdict(page)
      .getByText(/Records kept: 1 agent with \d+ messages/)
      .waitFor()
    expect(await kinds.count()).toBe(0)
  })

  it('system verdict: limited to the chosen namespace', async () => {
    await sleeping({ namespace: 'busy' })
    const ended = await sleeping({ namespace: 'idle' })
    await server.post(`/api/agents/${ended}/stop`)
    const page = await browser.open(server, '#/system')
    await verdict(page).getByText('Agents are running').waitFor()
    // The previous verdict stays until the new answer arrives. Meanwhile the reset is disabled, so it cannot hit the wrong namespace.
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
    await page.getByText('Checking the namespace idle…').waitFor()
    expect(await verdict(page).getByText('Agents are running').count()).toBe(1)
    expect(await page.getByRole('button', { name: 'Reset…' }).isDisabled()).toBe(true)
    answer()
    await verdict(page).getByText('No resources are left').waitFor()
    expect(await page.evaluate<boolean>('window.sameVerdict.isConnected')).toBe(true)
    expect(await page.getByRole('button', { name: 'Reset…' }).isDisabled()).toBe(false)
    await page.getByLabel('Namespace').selectOption('busy')
    await verdict(page).getByText('Agents are running').waitFor()
  })

  it('system verdict: the namespace is stored in the address, and follows it', async () => {
    await sleeping({ namespace: 'busy' })
    const page = await browser.open(server, '#/system')
    await page.getByLabel('Namespace').selectOption('busy')
    await expect.poll(() => page.url(), patient).toMatch(/#\/system\?namespace=busy$/)
    await page.reload()
    await verdict(page).getByText('Agents are running').waitFor()
    expect(await page.getByLabel('Namespace').inputValue()).toBe('busy')
    // A namespace without agents can be chosen by the address as well.
    await page.evaluate(`window.location.hash = '#/system?namespace=empty'`)
    await verdict(page).getByText('The system is clean').waitFor()
    expect(await page.getByLabel('Namespace').inputValue()).toBe('empty')
    await page.getByLabel('Namespace').selectOption('')
    await verdict(page).getByText('Agents are running').waitFor()
    expect(page.url()).toMatch(/#\/system$/)
  })

  it('system verdict: "Check now" requests the status', async () => {
    const page = await browser.open(server, '#/system')
    await verdict(page).waitFor()
    const asked = page.waitForResponse((response) => response.url().includes('/api/cleanup/status'))
    await page.getByRole('button', { name: 'Check now' }).click()
    expect((await asked).status()).toBe(200)
  })
})

it('system view: does not load the list of agents on every event, and still shows new namespaces', async () => {
  const page = await browser.open(server, '#/system')
  // Requests of the first page are not counted.
  await page.goto('about:blank')
  const requests: string[] = []
  page.on('request', (request) => {
    if (/\/api\/agents(\/active)?(\?|$)/.test(request.url())) requests.push(request.url())
  })
  await page.goto(`${server.url}/#/system`)
  // The page requests the list of agents once at the start, and once after the live connection is established.
  await expect.poll(() => requests.length, patient).toBe(2)
  await verdict(page).getByText('The system is clean').waitFor()
  for (const name of ['first', 'second']) {
    const id = await sleeping({ namespace: name })
    await page.getByLabel('Namespace').getByRole('option', { name }).waitFor({ state: 'attached' })
    await server.post(`/api/agents/${id}/stop`)
  }
  await verdict(page).getByText('No resources are left').waitFor()
  expect(requests).toHaveLength(2)
})

it('system view: a runner has its own card, which shows when it is unreachable', { timeout: 180_000 }, async () => {
  const runner = await startServer(['--runner'])
  await using own = await startServer(['--remote-url', runner.url])
  const page = await browser.open(own, '#/system')
  const card = page.getByRole('region', { name: `The runner ${new URL(runner.url).host}` })
  await card.getByText('healthy', { exact: true }).waitFor()
  runner.ebb.signal('SIGKILL')
  await runner.ebb.ended
  await card.getByText('unreachable', { exact: true }).waitFor()
  await card.getByText('What runs there is unknown.').waitFor()
  await page.getByRole('region', { name: 'This host' }).getByText('healthy', { exact: true }).waitFor()
  expect(await seriousViolations(page)).toEqual([])
  await card.scrollIntoViewIfNeeded()
  await reviewScreenshot(page, 'system-hosts')
  await page.close()
})

it('system view: an unreachable runner appears in the verdict and the figures, without a proof for its agents', async () => {
  await using runner = await startServer(['--runner'])
  await using own = await startServer(['--remote-url', runner.url])
  const { host } = new URL(runner.url)
  const id = await own.command(['sleep', '1000'], { placement: 'remote', namespace: 'far' })
  await own.command(['sleep', '1000'], { namespace: 'near' })
  const page = await browser.open(own, '#/system')
  await verdict(page).getByText('Agents are running').waitFor()
  await verdict(page).getByText('For agents on other hosts, those hosts provide the proof.').waitFor()
  runner.ebb.signal('SIGSTOP')
  try {
    await verdict(page).getByText('A host is unreachable').waitFor()
    await verdict(page).getByText(`Cannot reach ${host}`).waitFor()
    await verdict(page).getByText('unknown', { exact: true }).waitFor()
    await verdict(page).getByText('There is no proof for agents on other hosts').waitFor()
    expect(await verdict(page).textContent()).not.toContain('nothing is stuck')
    expect(await unreachable(page)).toBe('1')
    expect(await seriousViolations(page)).toEqual([])
    await reviewScreenshot(page, 'system-unreachable')
    // The unreachable runner matters only to namespaces with agents on that runner.
    await page.getByLabel('Namespace').selectOption('near')
    await verdict(page).getByText('Agents are running').waitFor()
    expect(await unreachable(page)).toBe('0')
    await page.getByLabel('Namespace').selectOption('far')
    await verdict(page).getByText('A host is unreachable').waitFor()
  } finally {
    runner.ebb.signal('SIGCONT')
  }
  await verdict(page).getByText('Agents are running').waitFor()
  await own.post(`/api/agents/${id}/stop`)
  await page.close()
})

it('system view: resources that wait for a stuck one are shown as waiting, not as errors', async () => {
  await using runner = await startServer(['--runner'])
  await using own = await startServer(['--remote-url', runner.url])
  const id = await own.command(['sh', '-c', 'echo up; exec sleep 1000'], { placement: 'remote' })
  await own.get(`/api/agents/${id}/messages?since=1&wait=15000`)
  runner.ebb.signal('SIGSTOP')
  try {
    await own.post(`/api/agents/${id}/stop`, { grace: 0 })
    const page = await browser.open(own, '#/system')
    await verdict(page)
      .getByText(/^1 stuck resource, \d waiting for their dependents\. Each is named below\./)
      .waitFor()
    await page.getByRole('region', { name: /^Waiting: released after the resources that depend on it/ }).waitFor()
    expect(await page.getByRole('region', { name: /^Held back/ }).count()).toBe(0)
    expect(await figure(page, 'held back')).toBe('0')
    expect(await seriousViolations(page)).toEqual([])
    await reviewScreenshot(page, 'system-waiting')
    await page.getByRole('link', { name: 'Cleanup', exact: true }).first().click()
    const stuck = page.getByRole('region', { name: 'Stuck resources' })
    await stuck.getByText(/^1 resource could not be released since (\d+ \w+, )?\d\d:\d\d/).waitFor()
    await stuck.getByText(/^\d more resources? waits? until these are released\.$/).waitFor()
    await page.getByRole('table', { name: 'Closes' }).getByRole('link').first().click()
    const log = page.getByRole('row', { name: /^(Log|File)/ }).first()
    await log.getByText('waiting', { exact: true }).waitFor()
    expect(await page.getByRole('row').locator('.fall__error').count()).toBe(1)
    expect(await seriousViolations(page)).toEqual([])
    await reviewScreenshot(page, 'close-waiting')
    await page.close()
  } finally {
    runner.ebb.signal('SIGCONT')
  }
  await own.post(`/api/agents/${id}/stop`, { force: true })
})

const figure = (page: Page, name: string): Promise<string | null> =>
  page.locator('.figures__item').filter({ hasText: name }).locator('dd').textContent()
const unreachable = (page: Page): Promise<string | null> => figure(page, 'unreachable')

it('system view: the host card shows containment, version, instance and placements', async () => {
  const page = await browser.open(server, '#/system')
  const host = page.getByRole('region', { name: 'This host' })
  await host.getByRole('heading', { name: hostname() }).waitFor()
  const health: Json = await server.get('/api/health')
  const { placements }: Json = await server.get('/api/placements')
  const titles = placements.filter(({ isAvailable }: Json) => isAvailable).map(({ title }: Json) => title)
  await host.getByText(titles.join(', '), { exact: true }).waitFor()
  const text = await host.textContent()
  for (const value of [health.containment, health.instanceId, health.version]) expect(text).toContain(value)
})

describe('reaper panel', () => {
  it('reaper panel: a dry run lists what would be released, and a confirmed run releases it', async () => {
    const page = await browser.open(server, '#/system')
    const reaper = page.getByRole('region', { name: 'Reaper' })
    await reaper.getByRole('button', { name: 'Dry run' }).click()
    await reaper.getByText('Nothing to release.').waitFor()
    await reaper.getByRole('button', { name: 'Run now' }).click()
    await page.getByRole('dialog').getByText('Running agents').waitFor()
    await page.getByRole('dialog').getByRole('button', { name: 'Run the reaper' }).click()
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    await reaper.getByText('Nothing to release.').waitFor()
  })
})

describe('reset', () => {
  it('reset: lists what it ends, requires typing the name while agents run, and is shown live to its proof', {
    timeout: 180_000,
  }, async () => {
    const unstoppable = await launchUnstoppable(server, { namespace: 'one' })
    const other = await sleeping({ namespace: 'two' })
    const page = await browser.open(server, '#/system')
    await page.getByLabel('Namespace').selectOption('one')
    await page.getByRole('button', { name: 'Reset…' }).click()
    const dialog = page.getByRole('dialog', { name: 'Reset the namespace one' })
    await dialog.getByText(`End 1 agent: agent ${unstoppable.slice(0, 8)}`).waitFor()
    await dialog.getByText(/Release .*1 × Process tree/).waitFor()
    const announced = await dialog.getByText(/Delete 1 agent record, \d+ messages/).textContent()
    await dialog.getByText('Not possible: rows and archives are deleted.').waitFor()
    const action = dialog.getByRole('button', { name: 'Reset', exact: true })
    expect(await action.isDisabled()).toBe(true)
    await dialog.getByLabel(/are running\. Type/).fill('on')
    expect(await action.isDisabled()).toBe(true)
    await dialog.getByLabel(/are running\. Type/).fill('one')
    expect(await seriousViolations(page)).toEqual([])
    await action.click()
    const reset = page.getByRole('region', { name: 'Reset progress' })
    await reset.getByText('in progress').waitFor()
    await reset.locator('.bar-piece--open').first().waitFor({ state: 'attached' })
    await reset.getByText('clean', { exact: true }).waitFor()
    // The report names the deletions that the dialog announced.
    await reset.getByText(`Deleted records: 1 agent and ${announced?.match(/\d+ messages/)?.[0]}.`).waitFor()
    await reset
      .getByRole('row', { name: /Process tree/ })
      .getByText('released', { exact: true })
      .waitFor()
    await verdict(page).getByText('The system is clean').waitFor()
    await reset.getByRole('button', { name: 'Done' }).click()
    await reset.waitFor({ state: 'detached' })
    expect((await server.call('GET', `/api/agents/${unstoppable}`)).status).toBe(404)
    expect(await server.get(`/api/agents/${other}/status`)).toMatchObject({ status: 'running' })
  })

  it('reset: needs no confirmation text when nothing runs, and Escape leaves the dialog', async () => {
    const id = await sleeping()
    await server.post(`/api/agents/${id}/stop`)
    const page = await browser.open(server, '#/system')
    await verdict(page).getByText('No resources are left').waitFor()
    const button = page.getByRole('button', { name: 'Reset…' })
    await button.focus()
    await page.keyboard.press('Enter')
    await page.getByRole('dialog').getByText('End no agents: none is running').waitFor()
    await page.keyboard.press('Escape')
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    expect(await page.evaluate<string>('document.activeElement.innerText')).toBe('Reset…')
    await page.keyboard.press('Enter')
    // The Reset button is disabled until the active agents are loaded.
    await page.getByRole('dialog').getByText('End no agents: none is running').waitFor()
    await tabTo(page, 'Reset')
    await page.keyboard.press('Enter')
    await verdict(page).getByText('The system is clean').waitFor()
  })

  it('reset: without test endpoints it ends the agents and keeps the records', async () => {
    const ebb = startEbb(['serve', '--port', '0', '--json'], { home: temporaryHome(), deadlineMs: 120_000 })
    await ebb.says('\n')
    const { url } = JSON.parse(ebb.output().split('\n')[0] ?? '') as { url: string }
    const body = JSON.stringify({ type: 'command', prompt: '', configuration: { command: ['sleep', '1000'] } })
    const launched = await fetch(`${url}/api/agents`, { method: 'POST', headers: { 'content-type': 'application/json' }, body })
    const { id } = (await launched.json()) as { id: string }
    const page = await browser.open({ url }, '#/system')
    await page.getByRole('button', { name: 'End everything…' }).click()
    const dialog = page.getByRole('dialog', { name: 'End everything in all namespaces' })
    await dialog.getByText('The agent records, their messages, and the archived logs').waitFor()
    await dialog.getByLabel(/are running\. Type/).fill('everything')
    await dialog.getByRole('button', { name: 'End everything' }).click()
    const reset = page.getByRole('region', { name: 'Reset progress' })
    await reset.getByText('clean', { exact: true }).waitFor()
    expect(await reset.getByText('Deleted records').count()).toBe(0)
    await verdict(page).getByText('No resources are left').waitFor()
    const kept = (await (await fetch(`${url}/api/agents/${id}`)).json()) as { status: string }
    expect(kept.status).toBe('terminated')
    await page.close()
    ebb.signal('SIGTERM')
    await ebb.ended
  })
})

describe('system view accessibility', () => {
  for (const colorScheme of ['light', 'dark'] as const)
    it(`system view: no serious axe violations in ${colorScheme} mode with running agents, and it fits a narrow page`, async () => {
      await sleeping()
      const page = await browser.open(server, '#/system', { colorScheme })
      await verdict(page).getByText('Agents are running').waitFor()
      expect(await seriousViolations(page)).toEqual([])
      await page.setViewportSize({ width: 390, height: 800 })
      expect(await seriousViolations(page)).toEqual([])
      await requireNoSidewaysScroll(page)
      await reviewScreenshot(page, `system-narrow-${colorScheme}`)
    })
})
