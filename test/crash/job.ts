/** What the test asks of a driver process; one JSON argument. */
export interface Job {
  readonly role: Role
  readonly home: string
  readonly workspace: string
  readonly containment: string
  /** With a sentinel, or alone. */
  readonly watched: boolean
  readonly crash?: Crash
}

export type Scenario = 'terminate' | 'rollback' | 'complete' | 'delete' | 'logs-only'
export type Role = Scenario | 'recover' | 'reap'

/** `during` is for effects that answer later: asked for, but the answer is never seen. */
export type Moment = 'before' | 'during' | 'after'

export interface Crash {
  /** The k-th effect, from 1. */
  readonly at: number
  readonly when: Moment
}

/** What a driver says on its standard output, one JSON object per line. */
export type Said =
  | { readonly is: 'ready' }
  | { readonly is: 'crash'; readonly effect: string }
  /** All that was asked for is done; `effects` were counted. */
  | { readonly is: 'done'; readonly effects: number; readonly left: readonly string[] }
