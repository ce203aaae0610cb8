/** Names that callers choose. They become names in logs and records: nothing that could be a path or a shell's. */

export interface NameRule {
  readonly pattern: RegExp
  /** What is allowed, for whoever wrote something else. */
  readonly says: string
}

/** Requests and tasks. */
export const ownerName: NameRule = { pattern: /^[A-Za-z0-9][A-Za-z0-9._:-]{0,99}$/, says: 'letters, digits, and . _ : - (at most 100)' }

export const namespaceName: NameRule = { pattern: /^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/, says: 'letters, digits, and . _ - (at most 100)' }
