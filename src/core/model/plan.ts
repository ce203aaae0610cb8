/** The order of release: reverse order of dependency, independent branches in parallel (G7). */

export interface Ordered {
  readonly id: string
  readonly dependsOn: readonly string[]
}

export interface PlannedRelease<R> {
  readonly resource: R
  /** The resources that depend on this one. They must be gone before it is released. */
  readonly after: readonly R[]
}

/**
 * For each resource, the resources that must be gone before it: only those that depend on it. The list is in an order in which the
 * resources can be released.
 */
export function releaseOrder<R extends Ordered>(resources: readonly R[]): readonly PlannedRelease<R>[] {
  const planned: PlannedRelease<R>[] = []
  for (const wave of waves(resources)) {
    const earlier = planned.map(({ resource }) => resource)
    planned.push(...wave.map((resource) => ({ resource, after: earlier.filter(({ dependsOn }) => dependsOn.includes(resource.id)) })))
  }
  return planned
}

/**
 * Sorts resources into waves. The resources of a wave may be released at the same time. No resource comes before those that depend on it. A
 * dependency outside the given set counts as met. A cycle, which no launch can make, is released last, as one wave.
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
