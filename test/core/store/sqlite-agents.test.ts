import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { expect, it, vi } from 'vitest'
import { realClock } from '../../../src/host/clock.ts'
import { openSqliteStore } from '../../../src/store/sqlite/store.ts'
import { temporaryHome } from '../../support/home.ts'

it('SQLite agents: pages of every size use the same prepared statement', async () => {
  const { agents, ledger } = await openSqliteStore({ file: join(temporaryHome(), 'ebb.db'), clock: realClock })
  const prepare = vi.spyOn(DatabaseSync.prototype, 'prepare')
  try {
    for (const limit of [1, 2, 3, 4, undefined]) await agents.list(limit === undefined ? {} : { limit })
    expect(prepare).toHaveBeenCalledTimes(1)
  } finally {
    prepare.mockRestore()
    await ledger[Symbol.asyncDispose]()
  }
})
