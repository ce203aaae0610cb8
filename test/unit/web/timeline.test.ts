import { describe, expect, test } from 'vitest'
import type { ResourceProgress } from '../../../src/core/model/progress.ts'
import type { ResourceReport } from '../../../src/core/model/report.ts'
import { endOf, groupsOf, neededKill, rowsOf, ticksOf } from '../../../web/src/cleanup/timeline.ts'

const at = (ms: number): string => new Date(ms).toISOString()
const scope = { kind: 'agent', id: 'a' } as const
const proof = { method: 'cgroup removed', strength: 'kernel', at: at(5_010) } as const

const tree: ResourceReport = {
  kind: 'process-tree',
  name: 'sh',
  id: 'a.2',
  scope,
  dependsOn: ['a.1'],
  outcome: 'released',
  startedAt: at(1_000),
  endedAt: at(5_010),
  steps: [
    { step: 'polite', at: at(1_005), took: 2_000 },
    { step: 'kill', at: at(3_010), took: 2_000 },
  ],
  proof,
}

const log: ResourceReport = {
  kind: 'log',
  name: 'out.log',
  id: 'a.1',
  scope,
  dependsOn: [],
  outcome: 'released',
  startedAt: at(5_010),
  endedAt: at(5_030),
  obligations: { at: at(5_012), took: 18 },
  steps: [],
  proof,
}

const endsProcesses = (kind: string): boolean => kind === tree.kind

const rowsIn = (resources: Parameters<typeof rowsOf>[1]): ReturnType<typeof rowsOf> => rowsOf(at(1_000), resources, scope, endsProcesses)

const pieces = (resource: ResourceReport | ResourceProgress): readonly unknown[] =>
  rowsIn([resource])[0]?.pieces.map(({ phase, fromMs, toMs }) => [phase, fromMs, toMs]) ?? []

describe('rowsOf: finished close', () => {
  test('rowsOf: phases follow each other, with checks between them', () => {
    expect(pieces(tree)).toEqual([
      ['looking', 0, 5],
      ['polite', 5, 2_005],
      ['looking', 2_005, 2_010],
      ['kill', 2_010, 4_010],
    ])
    expect(pieces(log)).toEqual([
      ['waiting', 0, 4_010],
      ['looking', 4_010, 4_012],
      ['obligations', 4_012, 4_030],
    ])
  })

  test('rowsOf: the last step of a kind without processes is shown as removed, not as killed', () => {
    const steps = [{ step: 'kill' as const, at: at(5_020), took: 2 }]
    const phasesOf = (resource: ResourceReport): readonly string[] => rowsIn([resource])[0]?.pieces.map(({ phase }) => phase) ?? []
    expect(phasesOf({ ...log, steps })).toContain('removed')
    expect(phasesOf({ ...log, kind: 'kind-of-a-later-version', steps })).toContain('removed')
    expect(phasesOf({ ...log, kind: tree.kind, steps })).toContain('kill')
  })

  test('neededKill: true only if a gentler step came before the kill', () => {
    const [killed, polite] = [tree, { ...tree, steps: tree.steps.slice(0, 1) }].map((one) => rowsIn([one])[0])
    expect(killed && neededKill(killed)).toBe(true)
    expect(polite && neededKill(polite)).toBe(false)
    const [atOnce] = rowsIn([{ ...tree, steps: tree.steps.slice(1) }])
    expect(atOnce && neededKill(atOnce)).toBe(false)
  })

  test('rowsOf: names the resources that each row waited for', () => {
    const [first, second] = rowsIn([log, tree])
    expect(first?.waitedFor).toEqual([])
    expect(second?.waitedFor).toEqual(['sh'])
  })

  test('rowsOf: sorts rows in release order, also with a dependency cycle', () => {
    const folder: ResourceReport = { ...log, id: 'a.0', name: 'folder' }
    const three = rowsIn([folder, { ...log, dependsOn: ['a.0'] }, tree])
    expect(three.map(({ key }) => key)).toEqual(['a.2', 'a.1', 'a.0'])
    const circle = rowsIn([
      { ...tree, dependsOn: ['a.1'] },
      { ...log, dependsOn: ['a.2'] },
    ])
    expect(circle).toHaveLength(2)
  })

  test('rowsOf: accepts old reports without ids, times and dependencies', () => {
    const { id: _id, scope: _scope, dependsOn: _on, startedAt: _at, endedAt: _end, ...old } = tree
    expect(pieces(old)).toEqual([
      ['waiting', 0, 5],
      ['polite', 5, 2_005],
      ['looking', 2_005, 2_010],
      ['kill', 2_010, 4_010],
    ])
    expect(pieces({ kind: 'log', name: 'sweep', outcome: 'stuck', steps: [], error: 'no answer' })).toEqual([['waiting', 0, undefined]])
  })

  test('rowsOf: a clock that was set back causes no negative phases', () => {
    const odd = { ...tree, startedAt: at(400), endedAt: at(300), steps: [{ step: 'kill' as const, at: at(200), took: 50 }] }
    for (const piece of rowsIn([odd])[0]?.pieces ?? []) {
      expect(piece.fromMs).toBeGreaterThanOrEqual(0)
      expect(piece.toMs ?? piece.fromMs).toBeGreaterThanOrEqual(piece.fromMs)
    }
  })
})

describe('rowsOf: close in progress', () => {
  const running: ResourceProgress = {
    ...tree,
    id: 'a.2',
    scope,
    dependsOn: [],
    state: 'terminate',
    since: at(3_020),
    steps: tree.steps.slice(0, 1),
  }
  delete (running as { endedAt?: string }).endedAt
  delete (running as { proof?: unknown }).proof

  test('rowsOf: the current phase has no end', () => {
    expect(pieces(running)).toEqual([
      ['looking', 0, 5],
      ['polite', 5, 2_005],
      ['looking', 2_005, 2_020],
      ['terminate', 2_020, undefined],
    ])
    const [row] = rowsIn([running])
    expect(row && endOf(row)).toBeUndefined()
  })

  test('rowsOf: a resource that waits is waiting from the start', () => {
    const { startedAt: _at, ...waiting } = { ...running, state: 'waiting' as const, since: at(1_000), steps: [] }
    expect(pieces(waiting)).toEqual([['waiting', 0, undefined]])
  })
})

test('groupsOf: groups rows by scope and keeps their order', () => {
  const other = { ...log, id: 'b.1', scope: { kind: 'agent', id: 'b' } } as const
  const groups = groupsOf(rowsOf(at(1_000), [tree, other, log], { kind: 'namespace', id: 'n' }, endsProcesses))
  expect(groups.map(({ key, rows }) => [key, rows.length])).toEqual([
    ['a', 2],
    ['b', 1],
  ])
})

test('ticksOf: few ticks at round numbers for any length', () => {
  expect(ticksOf(4_300)).toEqual([0, 1_000, 2_000, 3_000, 4_000])
  expect(ticksOf(21)).toEqual([0, 5, 10, 15, 20])
  expect(ticksOf(0)).toEqual([0])
  expect(ticksOf(Number.NaN)).toEqual([0])
  for (const total of [0.3, 1, 7, 99, 1e3, 12_345, 1e9]) expect(ticksOf(total).length).toBeLessThanOrEqual(7)
})
