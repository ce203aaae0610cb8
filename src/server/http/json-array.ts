/** Rows are read and written so many at a time: an answer of a million is neither held in memory nor made in one go. */
const pageSize = 1_000

/** A JSON array of numbered things, page by page. */
export async function* jsonArray<T extends { readonly sequenceNumber: number }>(
  page: (after: number, limit: number) => Promise<readonly T[]>,
  since: number,
  limit = Number.POSITIVE_INFINITY,
): AsyncGenerator<string> {
  let after = since
  let left = limit
  let separator = '['
  while (left > 0) {
    const rows = await page(after, Math.min(pageSize, left))
    const last = rows.at(-1)
    if (!last) break
    yield separator + rows.map((row) => JSON.stringify(row)).join(',')
    separator = ','
    after = last.sequenceNumber
    left -= rows.length
  }
  yield separator === '[' ? '[]' : ']'
}
