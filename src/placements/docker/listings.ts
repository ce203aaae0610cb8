import type { SeenContainer } from './ports.ts'

/** A query for the containers that have all of the given labels. */
export interface Wanted {
  readonly labels: Readonly<Record<string, string>>
}

/**
 * Shares lists of containers between concurrent callers: a close of thirty agents lists containers eight times for each. A single caller
 * lists its own container. Callers that arrive while a list is running share the next one. That list begins after all of them have called,
 * so none of them gets an outdated result.
 */
export class Listings {
  readonly #list: (wanted: Wanted) => Promise<readonly SeenContainer[]>
  /** The label that all queries have in common. */
  readonly #sharedLabel: string
  #running: Promise<unknown> | undefined
  readonly #next = new Map<string, Promise<readonly SeenContainer[]>>()

  constructor(sharedLabel: string, list: (wanted: Wanted) => Promise<readonly SeenContainer[]>) {
    this.#sharedLabel = sharedLabel
    this.#list = list
  }

  async ask(wanted: Wanted): Promise<readonly SeenContainer[]> {
    const shared = wanted.labels[this.#sharedLabel] ?? ''
    if (!this.#running) return await this.#run(wanted)
    let next = this.#next.get(shared)
    if (!next) {
      next = this.#running.then(() => {
        this.#next.delete(shared)
        return this.#run({ labels: { [this.#sharedLabel]: shared } })
      })
      this.#next.set(shared, next)
    }
    return (await next).filter(({ labels }) => isWanted(wanted, labels))
  }

  #run(wanted: Wanted): Promise<readonly SeenContainer[]> {
    const listing = this.#list(wanted)
    const over = listing.then(noop, noop).then(() => {
      if (this.#running === over) this.#running = undefined
    })
    this.#running = over
    return listing
  }
}

function isWanted(wanted: Wanted, labels: SeenContainer['labels']): boolean {
  return Object.entries(wanted.labels).every(([name, value]) => labels[name] === value)
}

function noop(): void {}
