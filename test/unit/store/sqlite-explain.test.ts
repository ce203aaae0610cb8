import { DatabaseSync } from 'node:sqlite'
import { expect, it } from 'vitest'
import { explain } from '../../../src/store/sqlite/explain.ts'

/** Whoever saves waits for a database that cannot be used, and must not wait for one that never takes what it is given. */

function refusal(sql: string, ...values: readonly unknown[]): string {
  using db = new DatabaseSync(':memory:')
  db.exec('CREATE TABLE one (name TEXT NOT NULL UNIQUE)')
  try {
    db.prepare(sql).run(...(values as string[]))
  } catch (error) {
    return explain(error).code
  }
  return 'taken'
}

it.each([
  ['against a constraint', 'INSERT INTO one VALUES (?)', null],
  ['twice', "INSERT INTO one VALUES ('x'), (?)", 'x'],
  ['too large', 'INSERT INTO one SELECT zeroblob(2000000000) WHERE ?', 1],
  ['no value at all', 'INSERT INTO one VALUES (?)', undefined],
])('what is %s is refused for good', (_what, sql, value) => {
  expect(refusal(sql, value)).toBe('internal')
})

it('a database that cannot be opened may be there tomorrow', () => {
  const open = (): unknown => {
    try {
      return new DatabaseSync('/nonexistent/ebb.db')
    } catch (error) {
      return explain(error).code
    }
  }
  expect(open()).toBe('ledger_unavailable')
})
