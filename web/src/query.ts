/** What stands after the path of an address, with its `?`; empty texts ask for nothing. */
export function queryText(said: Readonly<Record<string, string>>): string {
  const asked = Object.entries(said).filter(([, value]) => value !== '')
  return asked.length === 0 ? '' : `?${new URLSearchParams(asked)}`
}
