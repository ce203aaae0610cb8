/** The query part of an address, with its `?`. Parameters with an empty value are left out. */
export function queryText(parameters: Readonly<Record<string, string>>): string {
  const given = Object.entries(parameters).filter(([, value]) => value !== '')
  return given.length === 0 ? '' : `?${new URLSearchParams(given)}`
}
