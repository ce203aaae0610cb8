import type { Message } from '../api/shapes.ts'

/**
 * Follows the live end of a conversation. If the agent writes faster than the page can take messages, the messages in between are
 * skipped, so that the reader sees the newest ones. Only their number is recorded; they are fetched when the reader scrolls there.
 */

/** A reader that is at most this many messages behind receives every message. */
const mostBehind = 2_000
/** The number of received messages after which the total is checked. */
const checkInterval = 1_000

export interface Reader {
  readonly total: number
  take(message: Message): void
  grow(total: number): void
}

export interface Source {
  /** Delivers the messages after the number `since()`, live. Returns a function that stops the delivery. */
  follow(subscription: { readonly since: () => number; readonly onMessage: (message: Message) => void }): () => void
  /** The total number of messages. */
  count(): Promise<number>
}

export function followEnd(reader: Reader, { follow, count }: Source): () => void {
  let isStopped = false
  let isChecking = false
  let takenSinceCheck = 0
  let last = 0
  const onMessage = (message: Message): void => {
    reader.take(message)
    last = message.sequenceNumber
    takenSinceCheck += 1
    if (takenSinceCheck >= checkInterval && !isChecking) void check()
  }
  const start = (): (() => void) => follow({ since: () => reader.total, onMessage })
  const check = async (): Promise<void> => {
    isChecking = true
    takenSinceCheck = 0
    // If the server does not answer, the delivery continues as before.
    const known = await count().catch(() => 0)
    isChecking = false
    if (isStopped || known - last < mostBehind) return
    reader.grow(known)
    stop()
    stop = start()
  }
  let stop = start()
  return () => {
    isStopped = true
    stop()
  }
}
