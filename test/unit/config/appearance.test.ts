import { expect, it } from 'vitest'
import { readAppearance } from '../../../src/config/appearance.ts'

it.each([
  [{}, true, true],
  [{}, false, false],
  [{ NO_COLOR: '1' }, true, false],
  [{ NO_COLOR: '' }, true, true],
  [{ TERM: 'dumb' }, true, false],
  [{ FORCE_COLOR: '1' }, false, true],
  [{ FORCE_COLOR: '1', TERM: 'dumb' }, true, true],
  [{ FORCE_COLOR: '0' }, true, false],
  [{ FORCE_COLOR: '' }, false, false],
  [{ FORCE_COLOR: '1', NO_COLOR: '1' }, true, false],
])('appearance: with %j, on a terminal: %s, colours are used: %s', (env, isTerminal, hasColour) => {
  expect(readAppearance(env).hasColour(isTerminal)).toBe(hasColour)
})

it('appearance: a dumb terminal is not redrawn', () => {
  expect([readAppearance({ TERM: 'dumb' }).canRedraw, readAppearance({ TERM: 'xterm' }).canRedraw, readAppearance({}).canRedraw]).toEqual([
    false,
    true,
    true,
  ])
})
