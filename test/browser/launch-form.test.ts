import type { Page } from 'playwright-core'
import { describe, expect, it } from 'vitest'
import { useServer } from '../support/shared-server.ts'
import { isFocused, isInSight, patient, reviewScreenshot, useBrowser } from './support.ts'

const server = useServer()
const browser = useBrowser()

const button = (page: Page, name: string) => page.getByRole('button', { name, exact: true })
const prompt = (page: Page) => page.getByLabel('Prompt', { exact: true })
const dialog = (page: Page) => page.getByRole('dialog')

describe('launch form', () => {
  it('launch form: keeps its contents after Escape, and is empty after Cancel', async () => {
    const page = await browser.open(server)
    await button(page, 'Launch an agent').click()
    await prompt(page).fill('A long thought')
    await page.keyboard.press('Escape')
    await dialog(page).waitFor({ state: 'detached' })
    await button(page, 'Launch an agent').click()
    expect(await prompt(page).inputValue()).toBe('A long thought')
    await button(page, 'Cancel').click()
    await dialog(page).waitFor({ state: 'detached' })
    await button(page, 'Launch an agent').click()
    expect(await prompt(page).inputValue()).toBe('')
  })

  for (const [width, height] of [
    [1280, 800],
    [390, 700],
  ] as const)
    it(`launch form: a refusal is visible and focuses the field that it is about, at ${width}x${height}`, async () => {
      const page = await browser.open(server, '#/agents', { width, height, allows: [/400|409/] })
      await button(page, 'Launch an agent').click()
      await page.getByRole('radio', { name: /^Command/ }).check()
      const command = page.getByLabel('Command', { exact: true })
      await command.fill('/tmp/nosuch')
      await button(page, 'Launch').click()
      const alert = dialog(page).getByRole('alert')
      await alert.getByText('/tmp/nosuch was not found').waitFor()
      await expect.poll(() => isFocused(command), patient).toBe(true)
      expect([await isInSight(alert), await isInSight(command)]).toEqual([true, true])
      await reviewScreenshot(page, `launch-refused-${width}`)
      const folder = page.getByLabel('Working directory')
      await command.fill('true')
      await folder.fill('/tmp/nosuch')
      await button(page, 'Launch').click()
      await alert.getByText('The working directory /tmp/nosuch does not exist').waitFor()
      await expect.poll(() => isFocused(folder), patient).toBe(true)
      expect([await isInSight(alert), await isInSight(folder)]).toEqual([true, true])
      // An error that is about no field focuses the error message.
      await page.route('**/api/agents', async (route) =>
        route.request().method() === 'POST'
          ? await route.fulfill({ status: 409, json: { code: 'resetting', message: 'The namespace is being reset.' } })
          : await route.continue(),
      )
      await button(page, 'Launch').click()
      await alert.getByText('The namespace is being reset.').waitFor()
      await expect.poll(() => isFocused(alert), patient).toBe(true)
      expect(await isInSight(alert)).toBe(true)
    })

  it('launch form: a slow launch can continue in the background, and its result is shown as a toast', async () => {
    const page = await browser.open(server, '#/agents', { allows: [/409/] })
    const isRefused = { value: true }
    const answers: PromiseWithResolvers<void>[] = []
    await page.route('**/api/agents', async (route) => {
      if (route.request().method() !== 'POST') return await route.continue()
      const answer = Promise.withResolvers<void>()
      answers.push(answer)
      await answer.promise
      if (isRefused.value) await route.fulfill({ status: 409, json: { code: 'resetting', message: 'The namespace is being reset.' } })
      else await route.continue()
    })
    const launchAndLeave = async (): Promise<void> => {
      await button(page, 'Launch').click()
      await button(page, 'Continue in background').click()
      await dialog(page).waitFor({ state: 'detached' })
    }
    await button(page, 'Launch an agent').click()
    await page.getByRole('radio', { name: /^Synthetic/ }).check()
    await prompt(page).fill('Far away')
    await launchAndLeave()
    answers[0]?.resolve()
    await page.getByText('Launch failed: The namespace is being reset.').waitFor()
    // After a refused launch, the form still has the user's input.
    await button(page, 'Launch an agent').click()
    expect(await prompt(page).inputValue()).toBe('Far away')
    isRefused.value = false
    await launchAndLeave()
    await page.getByRole('link', { name: 'System', exact: true }).click()
    answers[1]?.resolve()
    await page.getByText('Agent launched (synthetic).').waitFor()
    // A user who has navigated away during the launch stays on the chosen page.
    expect(page.url()).toContain('#/system')
  })

  it('launch form: after navigating away during a launch, the page stays, and a refusal is shown as a toast', async () => {
    const page = await browser.open(server, '#/agents', { allows: [/409/] })
    const to = async (view: string): Promise<void> => {
      await page.getByRole('link', { name: view, exact: true }).click()
      await page.getByRole('heading', { level: 1, name: view }).waitFor()
    }
    const first = button(page, 'Launch a synthetic agent')
    /** Holds back the answers to launches. The returned function releases them. */
    const held = async (refusal?: string): Promise<() => void> => {
      const answer = Promise.withResolvers<void>()
      await page.unroute('**/api/agents')
      await page.route('**/api/agents', async (route) => {
        await answer.promise
        if (refusal === undefined) await route.continue()
        else await route.fulfill({ status: 409, json: { message: refusal } })
      })
      return answer.resolve
    }
    const refuse = await held('The namespace is being reset.')
    await first.click()
    await to('System')
    refuse()
    await page.getByText('Launch failed: The namespace is being reset.').waitFor()
    // After leaving and returning, the component that started the launch is unmounted, so the refusal is still shown as a toast.
    const refuseAgain = await held('The database is locked.')
    await to('Agents')
    await first.click()
    await to('System')
    await to('Agents')
    await first.waitFor()
    refuseAgain()
    await page.getByText('Launch failed: The database is locked.').waitFor()
    const launch = await held()
    await first.click()
    await to('System')
    launch()
    await page.getByText('Agent launched (synthetic).').waitFor()
    expect(page.url()).toContain('#/system')
  })

  it('launch form: contents are kept when the user goes back during a launch that is then refused', async () => {
    const page = await browser.open(server, '#/system', { allows: [/409/] })
    await page.getByRole('link', { name: 'Agents', exact: true }).click()
    const answer = Promise.withResolvers<void>()
    await page.route('**/api/agents', async (route) => {
      await answer.promise
      await route.fulfill({ status: 409, json: { message: 'The namespace is being reset.' } })
    })
    await button(page, 'Launch an agent').click()
    await page.getByRole('radio', { name: /^Synthetic/ }).check()
    await prompt(page).fill('A long thought')
    await button(page, 'Launch').click()
    await button(page, 'Continue in background').waitFor()
    await page.goBack()
    await page.getByRole('heading', { level: 1, name: 'System' }).waitFor()
    answer.resolve()
    await page.getByText('Launch failed: The namespace is being reset.').waitFor()
    await page.goForward()
    await button(page, 'Launch an agent').click()
    expect(await prompt(page).inputValue()).toBe('A long thought')
  })
})
