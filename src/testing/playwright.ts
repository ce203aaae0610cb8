import { createRequire } from 'node:module'
import { join } from 'node:path'
import type * as Playwright from '@playwright/test'
import { type EbbHandle, finish, handleOf, type Leaks, namespaceFor } from './handle.ts'
import { openPlace, type Place, type PlaceOptions } from './place.ts'

/** Playwright's `test` with an `ebb` fixture: every test has a namespace of its own, and fails when it leaves something in it running. */

export interface EbbFixtures {
  /** The namespace of this test on the server. */
  readonly ebb: EbbHandle
  /** Option: whether a test that leaks fails, or is only cleaned up. */
  readonly ebbLeaks: Leaks
}

export interface EbbWorkerFixtures {
  /** Option: the server that the tests use. */
  readonly ebbServer: PlaceOptions
  readonly ebbPlace: Place
}

/** Starting and stopping a server takes seconds on a busy machine. This timeout is separate from that of the tests. */
const fixtureTimeoutMs = 60_000

const { test: base, expect: baseExpect } = runningPlaywright()

export const expect: typeof Playwright.expect = baseExpect

export const test: Playwright.TestType<
  Playwright.PlaywrightTestArgs & Playwright.PlaywrightTestOptions & EbbFixtures,
  Playwright.PlaywrightWorkerArgs & Playwright.PlaywrightWorkerOptions & EbbWorkerFixtures
> = base.extend<EbbFixtures, EbbWorkerFixtures>({
  ebbServer: [{}, { option: true, scope: 'worker' }],
  ebbPlace: [
    async ({ ebbServer }, use) => {
      const place = await openPlace(ebbServer)
      try {
        await use(place)
      } finally {
        await place.close()
      }
    },
    { scope: 'worker', timeout: fixtureTimeoutMs },
  ],
  ebbLeaks: ['fail', { option: true }],
  ebb: [
    async ({ ebbPlace, ebbLeaks }, use, { title }) => {
      const handle = handleOf({ ...ebbPlace.address, namespace: namespaceFor(title) })
      await use(handle)
      await finish(handle, ebbLeaks, `test.use({ ebbLeaks: 'clean' })`)
    },
    // Automatic fixtures are set up first and torn down last, so a page has closed its sockets before leaks are checked.
    { auto: true, timeout: fixtureTimeoutMs },
  ],
})

/**
 * Loads the Playwright that runs this test. An import could load another copy when the kit is linked from a checkout, and
 * Playwright refuses to be loaded twice. It is resolved from the running program, else from the working directory.
 */
function runningPlaywright(): typeof Playwright {
  for (const place of [process.argv[1], join(process.cwd(), 'package.json')]) {
    if (place === undefined) continue
    for (const name of ['playwright/test', '@playwright/test']) {
      try {
        return createRequire(place)(name) as typeof Playwright
      } catch (error) {
        if (!isMissing(error)) throw error
      }
    }
  }
  throw new Error('ebb/testing/playwright runs inside of Playwright; install it with "npm install --save-dev @playwright/test".')
}

function isMissing(error: unknown): boolean {
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  return code === 'MODULE_NOT_FOUND' || code === 'ERR_PACKAGE_PATH_NOT_EXPORTED'
}
