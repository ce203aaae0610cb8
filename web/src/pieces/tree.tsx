import type { ReactNode } from 'react'

export interface TreeProps<T> {
  readonly items: readonly T[]
  readonly keyOf: (item: T) => string
  /** Of those above it; one whose parent is not among the items is a root. */
  readonly parentOf: (item: T) => string | undefined
  readonly label: string
  readonly children: (item: T) => ReactNode
}

/** Things below things, as nested lists. Each is shown once, also when what it says of its parents goes in a circle. */
export function Tree<T>({ items, keyOf, parentOf, label, children }: TreeProps<T>) {
  const byParent = new Map<string | undefined, T[]>()
  const keys = new Set(items.map(keyOf))
  for (const item of items) {
    const parent = parentOf(item)
    const place = parent !== undefined && keys.has(parent) && parent !== keyOf(item) ? parent : undefined
    byParent.set(place, [...(byParent.get(place) ?? []), item])
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
  const whole = branch(undefined)
  const lost = items.filter((item) => !shown.has(keyOf(item)))
  return (
    <>
      {whole}
      {lost.length > 0 && (
        <ul className="tree" aria-label={`${label}, in a circle`}>
          {lost.map((item) => (
            <li key={keyOf(item)}>{children(item)}</li>
          ))}
        </ul>
      )}
    </>
  )
}
