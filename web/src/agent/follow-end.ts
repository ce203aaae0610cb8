import type { Message } from '../api/shapes.ts'

/**
 * The end of a conversation, live. Of an agent that writes faster than a page can take, what lies between is left out: it is
 * known to be there, and fetched when somebody reads it, so that the reader sees what is said now and not what was said a minute ago.
 */

/** Who is no further behind keeps up. */
const mostBehind = 2_000
/** So many have come since the last look, or nobody is in a hurry. */
const worthLook = 1_000

export interface Reader {
  readonly total: number
  take(message: Message): void
  grow(total: number): void
}

export interface Source {
  /** Live, after the number that `since` says; the answer ends it. */
  follow(one: { readonly since: () => number; readonly onMessage: (message: Message) => void }): () => void
  /** How many there are. */
  count(): Promise<number>
}

export function followEnd(reader: Reader, { follow, count }: Source): () => void {
  let isOver = false
  let isLooking = false
  let taken = 0
  let last = 0
  const onMessage = (message: Message): void => {
    reader.take(message)
    last = message.sequenceNumber
    taken += 1
    if (taken >= worthLook && !isLooking) void look()
  }
  const start = (): (() => void) => follow({ since: () => reader.total, onMessage })
  const look = async (): Promise<void> => {
    isLooking = true
    taken = 0
    // Who is not answered goes on as it was.
    const said = await count().catch(() => 0)
    isLooking = false
    if (isOver || said - last < mostBehind) return
    reader.grow(said)
    stop()
    stop = start()
  }
  let stop = start()
  return () => {
    isOver = true
    stop()
  }
}
