import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { realClock } from '../../../src/host/clock.ts'
import { openSqliteStore, type Store } from '../../../src/store/sqlite/store.ts'
import { agentsConformance } from './agents.ts'

agentsConformance('SQLite', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'ebb-agents-'))
  const opened: Store[] = []
  const reopen = async (): Promise<Store> => {
    const store = await openSqliteStore({ file: join(folder, 'ebb.db'), clock: realClock })
    opened.push(store)
    return store
  }
  return {
    ...(await reopen()),
    reopen,
    dispose: async () => {
      for (const { ledger } of opened) await ledger[Symbol.asyncDispose]()
      rmSync(folder, { recursive: true })
    },
  }
})
