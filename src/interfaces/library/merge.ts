/** Several streams as one, each item with the number of its stream, as they come. */
export async function* merge<T>(streams: readonly AsyncGenerator<T>[]): AsyncGenerator<readonly [index: number, item: T]> {
  const next = (index: number): Promise<{ index: number; result: IteratorResult<T> }> | undefined =>
    streams[index]?.next().then((result) => ({ index, result }))
  const waiting = new Map(streams.map((_, index) => [index, next(index)]))
  try {
    while (waiting.size > 0) {
      const first = await Promise.race([...waiting.values()])
      if (!first) return
      if (first.result.done) waiting.delete(first.index)
      else {
        waiting.set(first.index, next(first.index))
        yield [first.index, first.result.value]
      }
    }
  } finally {
    // Started reads settle when their tail is told to leave; nobody needs their items any more.
    for (const read of waiting.values()) read?.catch(() => {})
  }
}
