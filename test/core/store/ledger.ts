import { afterEach, beforeEach, describe } from 'vitest'
import type { Ledger } from '../../../src/core/ports/ledger.ts'
import { closeCases } from './close-cases.ts'
import type { Store } from './connections.ts'
import { incarnationCases } from './incarnation-cases.ts'
import { resourceCases } from './resource-cases.ts'
import { scopeCases } from './scope-cases.ts'
import { sharingCases } from './sharing-cases.ts'
import { sightingCases } from './sighting-cases.ts'

/** The conformance suite of ledgers: every store must pass it unchanged. */

export interface OpenedLedger {
  readonly ledger: Ledger
  /** Opens another ledger on the same store, as another process would. */
  reopen(): Promise<Ledger>
  /** Closes all connections and removes the store. */
  dispose(): Promise<void>
}

export function ledgerConformance(name: string, open: () => Promise<OpenedLedger>): void {
  describe(`${name} as a ledger`, () => {
    let opened: OpenedLedger
    beforeEach(async () => {
      opened = await open()
    })
    afterEach(() => opened.dispose())

    const store: Store = {
      get ledger() {
        return opened.ledger
      },
      reopen: () => opened.reopen(),
    }
    describe('incarnations', () => incarnationCases(store))
    describe('scopes', () => scopeCases(store))
    describe('resources', () => resourceCases(store))
    describe('closing', () => closeCases(store))
    describe('sightings', () => sightingCases(store))
    describe('sharing and durability', () => sharingCases(store))
  })
}
