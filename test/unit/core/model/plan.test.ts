import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type Ordered, waves } from '../../../../src/core/model/plan.ts'

const ids = (plan: readonly (readonly Ordered[])[]): readonly (readonly string[])[] => plan.map((wave) => wave.map(({ id }) => id))
const on = (id: string, ...dependsOn: readonly string[]): Ordered => ({ id, dependsOn })

/** Random acyclic graphs. Each node depends only on earlier ones, and then the nodes are shuffled. Every acyclic graph has this shape. */
const graphs = fc
  .array(fc.array(fc.nat(), { maxLength: 4 }), { minLength: 1, maxLength: 30 })
  .map((edges) =>
    edges.map((targets, index) => on(`r${index}`, ...new Set(index === 0 ? [] : targets.map((target) => `r${target % index}`)))),
  )
  .chain((graph) => fc.shuffledSubarray(graph, { minLength: graph.length }))

/** Arbitrary graphs, with cycles, unknown dependencies and dependencies on oneself. */
const tangles = fc
  .array(fc.array(fc.nat(20), { maxLength: 4 }), { maxLength: 15 })
  .map((edges) => edges.map((targets, index) => on(`r${index}`, ...targets.map((target) => `r${target}`))))

describe('waves: order of release (G7)', () => {
  it('a resource goes after what depends on it', () => {
    expect(ids(waves([on('log'), on('tree', 'log'), on('target', 'tree')]))).toEqual([['target'], ['tree'], ['log']])
  })

  it('independent branches share waves', () => {
    expect(ids(waves([on('a'), on('b'), on('on a', 'a'), on('on b', 'b')]))).toEqual([
      ['on a', 'on b'],
      ['a', 'b'],
    ])
  })

  it('no resources make no waves', () => {
    expect(waves([])).toEqual([])
  })

  it('a dependency outside of the plan does not matter', () => {
    expect(ids(waves([on('tree', 'released long ago')]))).toEqual([['tree']])
  })

  it('a cycle goes last, as one wave', () => {
    expect(ids(waves([on('a', 'b'), on('b', 'a'), on('free', 'a')]))).toEqual([['free'], ['a', 'b']])
  })

  it('property: in an acyclic plan, no resource goes before or together with what depends on it', () => {
    fc.assert(
      fc.property(graphs, (graph) => {
        const waveOf = new Map(waves(graph).flatMap((wave, index) => wave.map(({ id }) => [id, index] as const)))
        for (const { id, dependsOn } of graph)
          for (const dependency of dependsOn) expect(waveOf.get(id) ?? -1).toBeLessThan(waveOf.get(dependency) ?? -1)
      }),
    )
  })

  it('property: in an acyclic plan, each resource goes as early as possible', () => {
    fc.assert(
      fc.property(graphs, (graph) => {
        const plan = waves(graph)
        for (const [index, wave] of plan.entries()) {
          const before = plan[index - 1] ?? []
          for (const { id } of wave) expect(index === 0 || before.some(({ dependsOn }) => dependsOn.includes(id))).toBe(true)
        }
      }),
    )
  })

  it('property: in any plan, even with cycles, each resource goes exactly once', () => {
    fc.assert(
      fc.property(tangles, (graph) => {
        const gone = ids(waves(graph)).flat()
        expect(gone.toSorted()).toEqual(graph.map(({ id }) => id).toSorted())
      }),
    )
  })
})
