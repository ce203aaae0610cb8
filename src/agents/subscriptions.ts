/** The subscription of one live client to one agent. */
export interface LiveSubscription {
  readonly agentId: string
  readonly namespace: string
  readonly clientId: string
  /** Ends the subscription, and tells its client. */
  drop(): void
}

/**
 * The subscriptions that exist now. An interface for live clients adds and removes them; a reset counts and drops them. Without such an
 * interface there are none.
 */
export class Subscriptions {
  readonly #active = new Set<LiveSubscription>()

  add(subscription: LiveSubscription): void {
    this.#active.add(subscription)
  }

  remove(subscription: LiveSubscription): void {
    this.#active.delete(subscription)
  }

  /** Names the subscriptions to agents of one namespace or of all. */
  names(namespace: string | undefined): readonly string[] {
    return this.#of(namespace).map(({ clientId, agentId }) => `subscription of client ${clientId} to agent ${agentId}`)
  }

  drop(namespace: string | undefined): void {
    for (const subscription of this.#of(namespace)) subscription.drop()
  }

  #of(namespace: string | undefined): readonly LiveSubscription[] {
    return [...this.#active].filter((subscription) => namespace === undefined || subscription.namespace === namespace)
  }
}
