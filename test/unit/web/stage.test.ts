import { expect, test } from 'vitest'
import { stageOf } from '../../../web/src/cleanup/stage.ts'

const running = { state: 'running', success: false, trigger: 'test-reset' } as const
const badge = (...given: Parameters<typeof stageOf>): string => stageOf(...given).badge

test('stageOf: reports the deletion of rows and archives once all resources are processed', () => {
  expect(badge(running, [])).toBe('in progress')
  expect(badge(running, [{ state: 'released' }, { state: 'kill' }])).toBe('in progress')
  expect(badge(running, [{ state: 'released' }, { state: 'given-up' }])).toBe('deleting rows and archives')
  expect(badge({ ...running, trigger: 'deleted' }, [{ state: 'released' }])).toBe('deleting rows and archives')
  // A stop keeps the rows and archives, so no deletion is reported.
  expect(badge({ ...running, trigger: 'terminated' }, [{ state: 'released' }])).toBe('in progress')
  expect(badge({ ...running, state: 'done', success: true }, [{ state: 'released' }])).toBe('clean')
  expect(badge({ ...running, state: 'done' }, [{ state: 'stuck' }])).toBe('not clean')
})
