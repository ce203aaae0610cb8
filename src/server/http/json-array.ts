/** The number of rows per page. Pages limit the memory for an answer of a million rows, and let other requests run in between. */
const pageSize = 1_000

/** Streams a JSON array of numbered rows, page by page. */
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
