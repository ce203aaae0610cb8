import { type Launch, within } from '../leaks/way.ts'
import { type Spawned, spawnProgram } from '../leaks/ways/spawned.ts'

/** The component of the algorithms that runs the agents. It starts each agent as a child and knows only that child. */
export class AgentProxy {
  readonly #children = new Map<string, Spawned>()

  async start(id: string, launch: Launch): Promise<void> {
    this.#children.set(id, await spawnProgram(launch))
  }

  /** Sends SIGTERM and waits for the exit. */
  async stop(id: string): Promise<void> {
    const spawned = this.#get(id)
    spawned.child.kill('SIGTERM')
    await spawned.exited
  }

  /** Sends SIGTERM, waits up to 5 s for the exit, and then sends SIGKILL. */
  async stopOrKill(id: string): Promise<void> {
    const isOver = this.stop(id).then(() => true)
    if (await within(isOver, 5_000)) return
    this.kill(id)
    await isOver
  }

  kill(id: string): void {
    this.#get(id).child.kill('SIGKILL')
  }

  /** The number of this proxy's agents that have not exited. */
  running(): number {
    return [...this.#children.values()].filter(({ child }) => child.exitCode === null && child.signalCode === null).length
  }

  #get(id: string): Spawned {
    const spawned = this.#children.get(id)
    if (!spawned) throw new Error(`The proxy has no agent ${id}.`)
    return spawned
  }
}
