import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Ledger } from '../../../src/core/ports/ledger.ts'
import { realClock } from '../../../src/host/clock.ts'
import { openSqliteLedger } from '../../../src/store/sqlite/store.ts'
import { ledgerConformance } from './ledger.ts'

ledgerConformance('SQLite', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'ebb-ledger-'))
  const opened: Ledger[] = []
  const reopen = async (): Promise<Ledger> => {
    const ledger = await openSqliteLedger({ file: join(folder, 'ebb.db'), clock: realClock })
    opened.push(ledger)
    return ledger
  }
  return {
    ledger: await reopen(),
    reopen,
    dispose: async () => {
      for (const ledger of opened) await ledger[Symbol.asyncDispose]()
      rmSync(folder, { recursive: true })
    },
  }
})
