import type { Clock } from './clock.ts'
import type { Host } from './host.ts'
import type { NewId } from './ids.ts'
import type { Log } from './log.ts'

/** The services that every part of a supervisor uses: the clock, ids, the log, and the identity of this process. */
export interface Runtime {
  readonly clock: Clock
  readonly log: Log
  readonly newId: NewId
  readonly host: Host
}
