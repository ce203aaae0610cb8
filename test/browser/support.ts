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
 * A real Chromium on the real dashboard. Every page fails its test on a console error, an error of its script, a call to
 * another origin, and anything that the page's own policy had to forbid.
 */

export interface OpenOptions {
  readonly width?: number
  readonly height?: number
  readonly colorScheme?: 'light' | 'dark'
  /** What the browser itself says on the console when a call fails that the test lets fail, such as `401`. */
  readonly allows?: readonly RegExp[]
}

export interface Browsing {
  /** A page of its own, with storage of its own; `to` is a hash such as `#/agents`. */
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

/** A deadline on a loaded machine with two cores, not a measurement: what waits ends at the event. */
const patienceMs = 30_000
/** For `expect.poll`. */
export const patient = { timeout: patienceMs }
/** Several such waits fit into one test, or its own end would hide which of them was in vain. */
const testMs = 180_000

/** One browser for all tests of the file; its profile is in a folder that goes with it. */
export function useBrowser(): Browsing {
  needs('chromium')
  vi.setConfig({ testTimeout: testMs })
  let browser: Awaited<ReturnType<typeof chromium.launch>> | undefined
  let opened: Opened[] = []

  beforeAll(async () => {
    const executablePath = chromiumProgram()
    if (missing('chromium') !== undefined || executablePath === undefined) return
    execFileSync(nodeProgram, [join(root, 'scripts', 'dashboard.mjs'), '--if-stale'])
    // A folder that the guard looks for: playwright puts the profile into it, and so does the browser with all else.
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
        if (!allows.some((one) => one.test(text))) complaints.push(text)
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

/** What axe calls serious or critical, each with where it is. */
export async function seriousViolations(page: Page): Promise<readonly string[]> {
  // Evaluated, not added as a script: the page's own policy would not let it in.
  await page.evaluate(axe)
  const violations = await page.evaluate<readonly Violation[]>('axe.run().then(({ violations }) => violations)')
  return violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .flatMap(({ id, nodes }) => nodes.map(({ target, failureSummary }) => `${id} at ${target.join(' ')}: ${failureSummary ?? ''}`))
}

/** No part of the page is wider than the page. */
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

/** Whether it can be read where it is: all of it within the page, and nothing over it. */
export function isInSight(one: Locator): Promise<boolean> {
  return one.evaluate((element: Shown) => {
    const { top, bottom, left, right } = element.getBoundingClientRect()
    const isShown = (y: number): boolean => element.contains(element.ownerDocument.elementFromPoint((left + right) / 2, y))
    return bottom > top && isShown(top + 1) && isShown((top + bottom) / 2) && isShown(bottom - 1)
  })
}

export function isFocused(one: Locator): Promise<boolean> {
  return one.evaluate((element: Shown) => element === element.ownerDocument.activeElement)
}

/** What a screen reader would call it, or what stands in it. */
export function focused(page: Page): Promise<string> {
  return page.evaluate('(document.activeElement?.labels?.[0]?.textContent || document.activeElement?.textContent || "").trim()')
}

/** Presses Tab until what has the focus says so; never more often than there are things to reach. */
export async function tabTo(page: Page, text: string | RegExp): Promise<void> {
  const passed: string[] = []
  for (let step = 0; step < 60; step++) {
    await page.keyboard.press('Tab')
    const at = await focused(page)
    if (typeof text === 'string' ? at === text : text.test(at)) return
    passed.push(at.slice(0, 40))
  }
  throw new Error(`Nothing says ${text}; these were passed: ${passed.join(' | ')}`)
}

/** For the README, and for those who look: only where EBB_SCREENSHOTS names a folder. */
export async function screenshot(page: Page, name: string): Promise<void> {
  await picture(process.env.EBB_SCREENSHOTS, page, name)
}

/** Of what no document shows: where EBB_SCREENSHOTS_MORE names a folder. */
export async function look(page: Page, name: string): Promise<void> {
  await picture(process.env.EBB_SCREENSHOTS_MORE, page, name)
}

async function picture(folder: string | undefined, page: Page, name: string): Promise<void> {
  if (folder === undefined || folder === '') return
  mkdirSync(folder, { recursive: true })
  await page.screenshot({ path: join(folder, `${name}.png`) })
}

/** An agent that is deaf to everything but a kill, by the time that this answers. */
export async function deaf(on: TestServer, more: object = {}): Promise<string> {
  const id = await on.command([fixture('ignores-sigterm'), fixture('waits')], more)
  await on.get(`/api/agents/${id}/messages?since=1&wait=15000`)
  return id
}

/** An agent that was stopped, so that there is something to look at. */
export async function stopped(on: TestServer): Promise<string> {
  const id = await on.command(['sh', '-c', 'echo up; exec sleep 1000'])
  await on.get(`/api/agents/${id}/messages?since=1&wait=15000`)
  await on.post(`/api/agents/${id}/stop`)
  return id
}
