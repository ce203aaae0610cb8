/** Draws trees of processes and resources, with a line for each node. */

export interface Branch<T> {
  readonly value: T
  /** The lines that are drawn before the value: `├─ `, `│  └─ `. */
  readonly stem: string
}

/**
 * Returns every value once, below its parent. A value without a parent in the list, or in a cycle, is at the top. The function
 * does not recurse: a tree of processes may be deeper than the stack.
 */
export function branches<T>(
  values: readonly T[],
  idOf: (value: T) => string,
  parentOf: (value: T) => string | undefined,
): readonly Branch<T>[] {
  const known = new Set(values.map(idOf))
  const below = new Map<string | undefined, T[]>()
  for (const value of values) {
    const parent = parentOf(value)
    const key = parent !== undefined && known.has(parent) && parent !== idOf(value) ? parent : undefined
    const siblings = below.get(key)
    if (siblings) siblings.push(value)
    else below.set(key, [value])
  }
  const drawn: Branch<T>[] = []
  const seen = new Set<string>()
  const draw = (top: T): void => {
    const todo: { value: T; own: string; inherited: string }[] = [{ value: top, own: '', inherited: '' }]
    for (let next = todo.pop(); next; next = todo.pop()) {
      const { value, own, inherited } = next
      const id = idOf(value)
      if (seen.has(id)) continue
      seen.add(id)
      drawn.push({ value, stem: own })
      const children = below.get(id) ?? []
      for (const [at, child] of [...children.entries()].toReversed()) {
        const isLast = at === children.length - 1
        todo.push({ value: child, own: `${inherited}${isLast ? '└─ ' : '├─ '}`, inherited: `${inherited}${isLast ? '   ' : '│  '}` })
      }
    }
  }
  for (const value of below.get(undefined) ?? []) draw(value)
  // The remaining values form cycles.
  for (const value of values) if (!seen.has(idOf(value))) draw(value)
  return drawn
}
