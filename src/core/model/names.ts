/** Names that callers choose. They appear in logs and records, so they contain nothing that a path or a shell would interpret. */

export interface NameRule {
  readonly pattern: RegExp
  /** The allowed characters, for the error message. */
  readonly says: string
}

/** The names of requests and tasks. */
export const ownerName: NameRule = { pattern: /^[A-Za-z0-9][A-Za-z0-9._:-]{0,99}$/, says: 'letters, digits, and . _ : - (at most 100)' }

export const namespaceName: NameRule = { pattern: /^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/, says: 'letters, digits, and . _ - (at most 100)' }
