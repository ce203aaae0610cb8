/** Finds an entry by its name. Throws an error that lists the names. */
export function named<T extends { readonly name: string }>(all: readonly T[], name: string): T {
  const found = all.find((one) => one.name === name)
  if (!found) throw new Error(`There is no ${JSON.stringify(name)}; use one of ${all.map((one) => one.name).join(', ')}.`)
  return found
}
