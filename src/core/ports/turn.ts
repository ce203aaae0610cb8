/** Settles in the next turn of the event loop. Long work awaits it, so that other work can run in between. */
export const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))
