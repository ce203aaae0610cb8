import { afterAll, afterEach, beforeAll, beforeEach } from 'vitest'
import { type EbbHandle, finish, handleOf, type Leaks, namespaceFor } from './handle.ts'
import { openPlace, type Place, type PlaceOptions } from './place.ts'

export interface UseEbbOptions extends PlaceOptions {
  /** Whether a test that leaks fails (default), or is only cleaned up. */
  readonly leaks?: Leaks
}

/** The timeout of the hooks. Starting and stopping a server takes seconds on a busy machine. */
const hookTimeoutMs = 60_000

/**
 * Gives each test of the current file or `describe` a namespace of its own. A test fails when it leaves something in its namespace running.
 * The returned handle always refers to the current test. Call `useEbb` before other hooks, because Vitest runs the `after` hooks of later
 * calls earlier.
 */
export function useEbb({ leaks = 'fail', ...options }: UseEbbOptions = {}): EbbHandle {
  let place: Place | undefined
  let current: EbbHandle | undefined

  beforeAll(async () => {
    place = await openPlace(options)
  }, hookTimeoutMs)
  afterAll(async () => {
    await place?.close()
  }, hookTimeoutMs)

  beforeEach(({ task }) => {
    if (task.concurrent) throw new Error('useEbb() supports one test at a time; remove "concurrent", or use the functions of ebb/testing.')
    if (place) current = handleOf({ ...place.address, namespace: namespaceFor(task.name) })
  })
  afterEach(async () => {
    const handle = current
    current = undefined
    if (handle) await finish(handle, leaks, `useEbb({ leaks: 'clean' })`)
  }, hookTimeoutMs)

  return handleFor(() => {
    if (!current) throw new Error('The handle of useEbb() can only be used in tests and their hooks, while they run.')
    return current
  })
}

function handleFor(current: () => EbbHandle): EbbHandle {
  return {
    get url() {
      return current().url
    },
    get namespace() {
      return current().namespace
    },
    get token() {
      return current().token
    },
    get headers() {
      return current().headers
    },
    launch: (body) => current().launch(body),
    wait: (agentId, timeoutMs) => current().wait(agentId, timeoutMs),
    agents: () => current().agents(),
    get: (path) => current().get(path),
    post: (path, data) => current().post(path, data),
    cleanup: (options) => current().cleanup(options),
    reset: () => current().reset(),
  }
}
