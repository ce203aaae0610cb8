/** Durations and ages use the monotonic clock. The wall clock is for display and records. */
export interface Clock {
  /** Milliseconds since boot. Values are comparable between processes of one boot. */
  now(): number
  /** The wall clock as a text: ISO 8601 with milliseconds and `Z`. */
  wall(): string
  /** Calls back once after `ms`, unless `signal` aborts first. */
  after(ms: number, signal: Cancellation, callback: () => void): void
  /** Calls back every `ms` until `signal` aborts. Does not keep the process alive. */
  every(ms: number, signal: AbortSignal, callback: () => void): void
}

/** The part of an AbortSignal that a timer needs. */
export interface Cancellation {
  readonly aborted: boolean
  addEventListener(type: 'abort', listener: () => void, options?: { readonly once: boolean }): void
  removeEventListener(type: 'abort', listener: () => void): void
}
