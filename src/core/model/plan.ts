/** Order of release: reverse order of dependency, independent branches side by side (G7). */

export interface Ordered {
  readonly id: string
  readonly dependsOn: readonly string[]
}

export interface Turn<R> {
  readonly resource: R
  /** What has to be gone before it: what depends on it. */
  readonly after: readonly R[]
}

/** For each resource, in an order in which they can go, what it waits for: its own branch, and nobody else's. */
export function turns<R extends Ordered>(resources: readonly R[]): readonly Turn<R>[] {
  const planned: Turn<R>[] = []
  for (const wave of waves(resources)) {
    const earlier = planned.map(({ resource }) => resource)
    planned.push(...wave.map((resource) => ({ resource, after: earlier.filter(({ dependsOn }) => dependsOn.includes(resource.id)) })))
  }
  return planned
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
