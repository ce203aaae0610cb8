import { expect, it } from 'vitest'
import { branches } from '../../../../src/cli/terminal/tree.ts'

interface One {
  readonly id: string
  readonly parent?: string
}

const drawn = (ones: readonly One[]): readonly string[] =>
  branches(
    ones,
    ({ id }) => id,
    ({ parent }) => parent,
  ).map(({ value, stem }) => stem + value.id)

it('tree: every item is below its parent', () => {
  const ones = [{ id: 'a' }, { id: 'b', parent: 'a' }, { id: 'c', parent: 'b' }, { id: 'd', parent: 'a' }, { id: 'e', parent: 'gone' }]
  expect(drawn(ones)).toEqual(['a', '├─ b', '│  └─ c', '└─ d', 'e'])
})

it('tree: cycles are shown once, and any depth is possible', () => {
  expect(
    drawn([
      { id: 'a', parent: 'b' },
      { id: 'b', parent: 'a' },
      { id: 'c', parent: 'c' },
    ]),
  ).toEqual(['c', 'a', '└─ b'])
  const deep = Array.from({ length: 3_000 }, (_, index) => ({ id: String(index), parent: String(index - 1) }))
  expect(drawn(deep)).toHaveLength(3_000)
})
