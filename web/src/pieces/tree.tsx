import type { ReactNode } from 'react'

export interface TreeProps<T> {
  readonly items: readonly T[]
  readonly keyOf: (item: T) => string
  /** The key of the parent. An item whose parent is not among the items is a root. */
  readonly parentOf: (item: T) => string | undefined
  readonly label: string
  readonly children: (item: T) => ReactNode
}

/** Items as nested lists. Each item is shown once, also if the parents form a cycle. */
export function Tree<T>({ items, keyOf, parentOf, label, children }: TreeProps<T>) {
  const byParent = new Map<string | undefined, T[]>()
  const keys = new Set(items.map(keyOf))
  for (const item of items) {
    const parent = parentOf(item)
    const under = parent !== undefined && keys.has(parent) && parent !== keyOf(item) ? parent : undefined
    byParent.set(under, [...(byParent.get(under) ?? []), item])
  }
  const shown = new Set<string>()
  const branch = (parent: string | undefined): ReactNode => {
    const below = (byParent.get(parent) ?? []).filter((item) => !shown.has(keyOf(item)))
    if (below.length === 0) return null
    for (const item of below) shown.add(keyOf(item))
    return (
      <ul className="tree" aria-label={parent === undefined ? label : undefined}>
        {below.map((item) => (
          <li key={keyOf(item)}>
            {children(item)}
            {branch(keyOf(item))}
          </li>
        ))}
      </ul>
    )
  }
  const tree = branch(undefined)
  const inCycle = items.filter((item) => !shown.has(keyOf(item)))
  return (
    <>
      {tree}
      {inCycle.length > 0 && (
        <ul className="tree" aria-label={`${label}, in a cycle`}>
          {inCycle.map((item) => (
            <li key={keyOf(item)}>{children(item)}</li>
          ))}
        </ul>
      )}
    </>
  )
}
