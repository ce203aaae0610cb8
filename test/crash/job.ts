/** What the test asks of a driver process; one JSON argument. */
export interface Job {
  readonly role: Role
  readonly home: string
  readonly workspace: string
  /** The system's folder for temporary files. */
  readonly temp: string
  readonly containment: string
  /** With a sentinel, or alone. */
  readonly watched: boolean
  readonly crash?: Crash
  /** Further settings, for agents elsewhere. */
  readonly settings?: Readonly<Record<string, string>>
}

export type DockerScenario = 'docker-terminate' | 'docker-delete' | 'docker-rollback' | 'docker-paused'
export type Scenario = 'terminate' | 'rollback' | 'complete' | 'delete' | 'remove' | 'logs-only' | 'deploy' | 'ecs'
export type RemoteScenario = 'remote-terminate' | 'remote-delete' | 'remote-rollback'
export type Role = Scenario | DockerScenario | RemoteScenario | 'recover' | 'reap'

/**
 * `before` counts every effect; after an effect that is done at once is before the next one. `during` (asked for, the
 * answer never seen) and `after` count the effects that answer later.
 */
export type Moment = 'before' | 'during' | 'after'

export interface Crash {
  /** The k-th effect of those that the moment counts, from 1. */
  readonly at: number
  readonly when: Moment
  /** Counts only the effects of this name, such as `ledger.hold`. */
  readonly effect?: string
}

/** What a driver says on its standard output, one JSON object per line. */
export type Said =
  /** So many effects were asked for until then, and of those so many answer later. */
  | { readonly is: 'ready'; readonly effects: Readonly<Record<Moment, number>> }
  | { readonly is: 'crash'; readonly effect: string }
  /** All that was asked for is done; `effects` were counted. */
  | { readonly is: 'done'; readonly effects: number; readonly left: readonly string[] }
