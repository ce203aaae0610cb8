import { execFileSync } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { source as axe } from 'axe-core'
import { type BrowserContext, chromium, type Locator, type Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, beforeEach, expect, vi } from 'vitest'
import { fixture } from '../support/fixtures.ts'
import { nodeProgram, root, temporaryHome } from '../support/home.ts'
import { chromiumProgram, missing, needs } from '../support/real.ts'
import type { TestServer } from '../support/server.ts'

/**
 * Runs a real Chromium on the real dashboard. A test fails if its page logs a console error or warning, throws, calls another
 * origin, or violates the page's content security policy.
 */

export interface OpenOptions {
  readonly width?: number
  readonly height?: number
  readonly colorScheme?: 'light' | 'dark'
  /** Console messages that the test expects, such as the browser's message for a `401`. */
  readonly allows?: readonly RegExp[]
}

export interface Browsing {
  /** Opens a page in its own browser context. `to` is a hash such as `#/agents`. */
  open(server: Pick<TestServer, 'url'>, to?: string, options?: OpenOptions): Promise<Page>
}

interface Opened {
  readonly context: BrowserContext
  readonly complaints: string[]
}

const flags = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--no-first-run',
  '--disable-dev-shm-usage',
]

/** The deadline of every wait, generous for a loaded machine with two cores. Waits end at the event. */
const patienceMs = 30_000
/** Options for `expect.poll` with the deadline of every wait. */
export const patient = { timeout: patienceMs }
/** The timeout of a test, long enough for several waits. So the failing wait is reported, and not the timeout of the test. */
const testMs = 180_000

/** Starts a browser for all tests of the file. Its profile is in a temporary folder. */
export function useBrowser(): Browsing {
  needs('chromium')
  vi.setConfig({ testTimeout: testMs })
  let browser: Awaited<ReturnType<typeof chromium.launch>> | undefined
  let opened: Opened[] = []

  beforeAll(async () => {
    const executablePath = chromiumProgram()
    if (missing('chromium') !== undefined || executablePath === undefined) return
    execFileSync(nodeProgram, [join(root, 'scripts', 'dashboard.mjs'), '--if-stale'])
    // Playwright and the browser write all their files to this folder, which the leak guard of the tests checks.
    const folder = temporaryHome()
    browser = await chromium.launch({ executablePath, args: flags, env: { ...variables(), TMPDIR: folder, HOME: folder } })
  })
  beforeEach(() => {
    opened = []
  })
  afterEach(async () => {
    for (const { context } of opened) await context.close()
    expect(opened.flatMap(({ complaints }) => complaints)).toEqual([])
  })
  afterAll(async () => await browser?.close())

  return {
    open: async ({ url }, to = '#/agents', { width = 1280, height = 800, colorScheme = 'light', allows = [] } = {}) => {
      if (!browser) throw new Error('The browser has not started.')
      const context = await browser.newContext({ viewport: { width, height }, colorScheme, reducedMotion: 'reduce' })
      const complaints: string[] = []
      opened.push({ context, complaints })
      const page = await context.newPage()
      const complain = (text: string): void => {
        if (!allows.some((pattern) => pattern.test(text))) complaints.push(text)
      }
      page.setDefaultTimeout(patienceMs)
      page.on('console', (message) => {
        if (message.type() === 'error' || message.type() === 'warning') complain(`${message.type()}: ${message.text()}`)
      })
      page.on('pageerror', (error) => complain(`page error: ${error.message}`))
      page.on('request', (request) => {
        if (!isOwn(request.url(), url)) complain(`a call to another origin: ${request.url()}`)
      })
      page.on('websocket', (socket) => {
        if (!isOwn(socket.url(), url)) complain(`a socket to another origin: ${socket.url()}`)
      })
      await page.goto(`${url}/${to}`)
      await page.getByRole('heading', { level: 1 }).waitFor()
      return page
    },
  }
}

function variables(): Record<string, string> {
  return Object.fromEntries(Object.entries(process.env).filter((entry): entry is [string, string] => entry[1] !== undefined))
}

function isOwn(address: string, url: string): boolean {
  return new URL(address).host === new URL(url).host || /^(data|blob):/.test(address)
}

interface Violation {
  readonly id: string
  readonly impact: string
  readonly nodes: readonly { readonly target: readonly string[]; readonly failureSummary?: string }[]
}

/** Returns the serious and critical axe violations, each with its elements. */
export async function seriousViolations(page: Page): Promise<readonly string[]> {
  // The axe library is evaluated in the page, because the page's content security policy forbids added scripts.
  await page.evaluate(axe)
  const violations = await page.evaluate<readonly Violation[]>('axe.run().then(({ violations }) => violations)')
  return violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .flatMap(({ id, nodes }) => nodes.map(({ target, failureSummary }) => `${id} at ${target.join(' ')}: ${failureSummary ?? ''}`))
}

/** Requires that the page cannot be scrolled sideways. */
export async function requireNoSidewaysScroll(page: Page): Promise<void> {
  const tooWide = await page.evaluate(`document.documentElement.scrollWidth - document.documentElement.clientWidth`)
  expect(tooWide).toBeLessThanOrEqual(0)
}

interface Box {
  readonly top: number
  readonly bottom: number
  readonly left: number
  readonly right: number
}

interface Shown {
  readonly ownerDocument: { readonly activeElement: unknown; elementFromPoint(x: number, y: number): unknown }
  getBoundingClientRect(): Box
  contains(other: unknown): boolean
}

/** Whether the element is fully within the viewport and not covered. */
export function isInSight(locator: Locator): Promise<boolean> {
  return locator.evaluate((element: Shown) => {
    const { top, bottom, left, right } = element.getBoundingClientRect()
    const isShown = (y: number): boolean => element.contains(element.ownerDocument.elementFromPoint((left + right) / 2, y))
    return bottom > top && isShown(top + 1) && isShown((top + bottom) / 2) && isShown(bottom - 1)
  })
}

export function isFocused(locator: Locator): Promise<boolean> {
  return locator.evaluate((element: Shown) => element === element.ownerDocument.activeElement)
}

/** The label or text of the focused element. */
export function focused(page: Page): Promise<string> {
  return page.evaluate('(document.activeElement?.labels?.[0]?.textContent || document.activeElement?.textContent || "").trim()')
}

/** Presses Tab until the focused element has the given label or text. Fails after 60 presses. */
export async function tabTo(page: Page, text: string | RegExp): Promise<void> {
  const passed: string[] = []
  for (let step = 0; step < 60; step++) {
    await page.keyboard.press('Tab')
    const at = await focused(page)
    if (typeof text === 'string' ? at === text : text.test(at)) return
    passed.push(at.slice(0, 40))
  }
  throw new Error(`No focusable element is named ${text}. Tab reached: ${passed.join(' | ')}`)
}

/** Takes a screenshot for the documentation, if EBB_SCREENSHOTS names a folder. */
export async function screenshot(page: Page, name: string): Promise<void> {
  await picture(process.env.EBB_SCREENSHOTS, page, name)
}

/** Takes a screenshot for review only, if EBB_SCREENSHOTS_MORE names a folder. */
export async function reviewScreenshot(page: Page, name: string): Promise<void> {
  await picture(process.env.EBB_SCREENSHOTS_MORE, page, name)
}

async function picture(folder: string | undefined, page: Page, name: string): Promise<void> {
  if (folder === undefined || folder === '') return
  mkdirSync(folder, { recursive: true })
  await page.screenshot({ path: join(folder, `${name}.png`) })
}

/** Launches an agent that only a kill can end, and waits until it ignores signals. */
export async function launchUnstoppable(on: TestServer, more: object = {}): Promise<string> {
  const id = await on.command([fixture('ignores-sigterm'), fixture('waits')], more)
  await on.get(`/api/agents/${id}/messages?since=1&wait=15000`)
  return id
}

/** Launches an agent and stops it. Returns its id. */
export async function launchStopped(on: TestServer): Promise<string> {
  const id = await on.command(['sh', '-c', 'echo up; exec sleep 1000'])
  await on.get(`/api/agents/${id}/messages?since=1&wait=15000`)
  await on.post(`/api/agents/${id}/stop`)
  return id
}
