/** Order of release: reverse order of dependency, independent branches side by side (G7). */

export interface Ordered {
  readonly id: string
  readonly dependsOn: readonly string[]
}

/**
 * Waves of resources; everything in a wave may go at the same time, and nothing goes before what depends on it.
 * A dependency outside the given set is taken as already met. A cycle, which no launch can make, goes last as one wave.
 */
export function waves<R extends Ordered>(resources: readonly R[]): readonly (readonly R[])[] {
  const left = new Map(resources.map((resource) => [resource.id, resource]))
  const result: R[][] = []
  while (left.size > 0) {
    const needed = new Set([...left.values()].flatMap((resource) => resource.dependsOn))
    const free = [...left.values()].filter((resource) => !needed.has(resource.id))
    const wave = free.length > 0 ? free : [...left.values()]
    for (const resource of wave) left.delete(resource.id)
    result.push(wave)
  }
  return result
}
