import { afterAll, afterEach, beforeAll, beforeEach } from 'vitest'
import { type EbbHandle, finish, handleOf, type Leaks, namespaceFor } from './handle.ts'
import { openPlace, type Place, type PlaceOptions } from './place.ts'

export interface UseEbbOptions extends PlaceOptions {
  /** Whether a test that leaks fails (default), or is only cleaned up. */
  readonly leaks?: Leaks
}

/** A start and a proven stop take seconds on a busy machine. */
const hookTimeoutMs = 60_000

/**
 * For the tests of this file or `describe`: each has a namespace of its own, and fails when it leaves something in it.
 * The answer is, at any time, the handle of the test that runs. Call it first: hooks that come later are undone before.
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
    if (task.concurrent) throw new Error('useEbb() knows one test at a time; take "concurrent" away, or use the functions of ebb/testing.')
    if (place) current = handleOf({ ...place.address, namespace: namespaceFor(task.name) })
  })
  afterEach(async () => {
    const handle = current
    current = undefined
    if (handle) await finish(handle, leaks, `useEbb({ leaks: 'clean' })`)
  }, hookTimeoutMs)

  return following(() => {
    if (!current) throw new Error('The handle of useEbb() is for tests and their hooks, while they run.')
    return current
  })
}

function following(current: () => EbbHandle): EbbHandle {
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
