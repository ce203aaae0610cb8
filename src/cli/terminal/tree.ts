/** Things that hang below each other, a line each. */

export interface Branch<T> {
  readonly value: T
  /** What is drawn before it: `├─ `, `│  └─ `. */
  readonly stem: string
}

/**
 * Every value once, each below its parent; what has none among them, or is its own ancestor, is at the top. Not by
 * recursion: a tree of processes may be deeper than a stack.
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
  // What is left goes round in circles.
  for (const value of values) if (!seen.has(idOf(value))) draw(value)
  return drawn
}
