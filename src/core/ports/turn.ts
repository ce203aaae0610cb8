/** Settles in the next turn of the event loop: whoever has much to do lets the others in between. */
export const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))
