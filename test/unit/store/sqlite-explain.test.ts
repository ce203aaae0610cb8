import { DatabaseSync } from 'node:sqlite'
import { expect, it } from 'vitest'
import { explain } from '../../../src/store/sqlite/explain.ts'

/** A writer retries while the database cannot be used, and must not retry data that the database refuses for good. */

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
  ['violates NOT NULL', 'INSERT INTO one VALUES (?)', null],
  ['violates UNIQUE', "INSERT INTO one VALUES ('x'), (?)", 'x'],
  ['is too large', 'INSERT INTO one SELECT zeroblob(2000000000) WHERE ?', 1],
  ['is undefined', 'INSERT INTO one VALUES (?)', undefined],
])('explain: a value that %s is refused for good', (_what, sql, value) => {
  expect(refusal(sql, value)).toBe('internal')
})

it('explain: a database that cannot be opened is unavailable, which is retried', () => {
  const open = (): unknown => {
    try {
      return new DatabaseSync('/nonexistent/ebb.db')
    } catch (error) {
      return explain(error).code
    }
  }
  expect(open()).toBe('ledger_unavailable')
})
