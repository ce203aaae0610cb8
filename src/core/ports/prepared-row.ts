/**
 * Rows that a port of the store has prepared, such as the row of an agent. The ledger of the same store writes them in its own transaction,
 * together with the scope that they belong to.
 */
export interface PreparedRow {
  readonly insert: () => void
}
