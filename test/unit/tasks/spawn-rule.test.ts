import { expect, it } from 'vitest'
import { parseSpawnRule } from '../../../src/core/model/spawn-rule.ts'

it.each([
  ['orchestrator>*', 'orchestrator', 'anything', undefined],
  ['lead-*>tester:3', 'lead-a', 'tester', 3],
  ['*>*_x', 'a', 'b_x', undefined],
])('spawn rule: %s lets %s deploy %s', (text, parent, child, most) => {
  const rule = parseSpawnRule(text)
  expect(rule?.parent.test(parent)).toBe(true)
  expect(rule?.child.test(child)).toBe(true)
  expect(rule?.most).toBe(most)
})

it.each([
  ['lead-*>tester', 'leader', 'tester'],
  ['lead>tester', 'lead', 'testers'],
  ['lead>tester', 'a-lead', 'tester'],
])('spawn rule: %s does not let %s deploy %s', (text, parent, child) => {
  const rule = parseSpawnRule(text)
  expect(rule?.parent.test(parent) && rule.child.test(child)).toBe(false)
})

it.each(['', 'a', '>', 'a>', '>b', 'a>b:0', 'a>b:', 'a>b:x', 'a>b>c', 'a.>b', 'a > b'])('spawn rule: "%s" is invalid', (text) => {
  expect(parseSpawnRule(text)).toBeUndefined()
})

it('spawn rule: a pattern with many stars is matched quickly', () => {
  const rule = parseSpawnRule(`${'*a'.repeat(30)}>b`)
  expect(rule?.parent.test('a'.repeat(29))).toBe(false)
})
