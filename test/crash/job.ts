/** The JSON argument of a driver process. */
export interface Job {
  readonly role: Role
  readonly home: string
  readonly workspace: string
  /** The value of TMPDIR. */
  readonly temp: string
  readonly containment: string
  /** Whether the supervisor has a sentinel. */
  readonly watched: boolean
  readonly crash?: Crash
  /** Further settings of the driver, for remote placements. */
  readonly settings?: Readonly<Record<string, string>>
}

export type DockerScenario = 'docker-terminate' | 'docker-delete' | 'docker-rollback' | 'docker-paused'
export type Scenario = 'terminate' | 'rollback' | 'complete' | 'delete' | 'remove' | 'probe' | 'logs-only' | 'deploy' | 'ecs'
export type RemoteScenario = 'remote-terminate' | 'remote-delete' | 'remote-rollback'
export type Role = Scenario | DockerScenario | RemoteScenario | 'recover' | 'reap'

/**
 * `before` counts every effect. The moment after an effect without a delay is the same as before the next one. `during` (called, answer
 * not received) and `after` count the effects that answer with a delay.
 */
export type Moment = 'before' | 'during' | 'after'

export interface Crash {
  /** The number of the effect at which the process is killed, from 1. Only effects that the moment counts are numbered. */
  readonly at: number
  readonly when: Moment
  /** When given, only effects of this name count, such as `ledger.hold`. */
  readonly effect?: string
}

/** The lines on a driver's standard output, one JSON object each. */
export type Said =
  /** The launch is complete. `effects` are the counts so far, by moment. */
  | { readonly is: 'ready'; readonly effects: Readonly<Record<Moment, number>> }
  | { readonly is: 'crash'; readonly effect: string }
  /** The role is complete. `effects` were counted in total. */
  | { readonly is: 'done'; readonly effects: number; readonly left: readonly string[] }
