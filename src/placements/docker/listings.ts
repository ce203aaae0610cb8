import type { SeenContainer } from './ports.ts'

/** What is wanted of a listing: all of these labels. */
export interface Wanted {
  readonly labels: Readonly<Record<string, string>>
}

/**
 * Who looks alone asks for his own container. Those who come while the daemon is answering share the listing after that one,
 * which begins later than all of them asked, so that none of them sees an older world: thirty agents that are stopped at once
 * look at their containers eight times each.
 */
export class Listings {
  readonly #list: (wanted: Wanted) => Promise<readonly SeenContainer[]>
  /** What all of them have in common. */
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
