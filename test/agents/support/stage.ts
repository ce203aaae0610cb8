import { linkSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { TestDaemon } from '../../support/docker.ts'
import type { Json, TestServer } from '../../support/server.ts'
import { waitUntil } from '../../support/world.ts'
import { dockerWords, leftAtDaemon } from './container.ts'
import { launchBody, openRunner, openServer, type Placement, patienceMs, type Scene } from './scene.ts'
import { leftOf, type OwnProcesses, ownProcessesOf, requireNothing } from './sight.ts'
import { liveOutput } from './transcript.ts'

/** One agent of a real `ebb serve`, and the next server after a kill. With the placement remote, also its runner. */

const noProcesses: OwnProcesses = new Set()

export class Stage implements AsyncDisposable {
  readonly scene: Scene
  readonly placement: Placement
  server: TestServer
  /** Ebb's own processes: those of the runner alone while no server runs. */
  ownProcesses: OwnProcesses
  #runnerProcesses: OwnProcesses
  #runner: TestServer | undefined
  readonly #daemon: TestDaemon | undefined
  #id: string | undefined

  private constructor(scene: Scene, placement: Placement, server: TestServer, more: Parts) {
    this.scene = scene
    this.placement = placement
    this.server = server
    this.#runner = more.runner
    this.#runnerProcesses = more.runnerProcesses
    this.#daemon = more.daemon
    this.ownProcesses = ownProcessesOf(scene)
  }

  /**
   * Starts a server, and a runner for the placement remote. For the placement docker, `daemon` is the Docker daemon that runs the
   * containers.
   */
  static async open(scene: Scene, placement: Placement, daemon?: TestDaemon): Promise<Stage> {
    const runner = placement === 'remote' ? await openRunner(scene) : undefined
    const runnerProcesses = runner ? ownProcessesOf(scene) : noProcesses
    const server = await openServer(scene, settings(scene, { runner, daemon }))
    return new Stage(scene, placement, server, { runner, runnerProcesses, daemon })
  }

  get id(): string {
    if (this.#id === undefined) throw new Error('No agent has been launched yet.')
    return this.#id
  }

  get path(): string {
    return `/api/agents/${this.id}`
  }

  async launch(hasMcp: boolean): Promise<void> {
    this.#id = await this.server.launch(launchBody(this.scene, { placement: this.placement, hasMcp }))
    if (this.#runner) linkSync(liveOutput(this.scene.runnerHome), this.#secondName)
  }

  /** The final status of the agent. */
  async finalStatus(): Promise<string> {
    const until = performance.now() + patienceMs
    for (;;) {
      const { status } = await this.server.get<Json>(`${this.path}/status?wait=10000`)
      if (!['initializing', 'running', 'stopping'].includes(status)) return status
      if (performance.now() > until) throw new Error(`The agent is still ${status}. Its last messages: ${await this.lastMessages()}`)
    }
  }

  async lastMessages(): Promise<string> {
    const messages: Json[] = await this.server.get(`${this.path}/messages`)
    return messages
      .slice(-5)
      .map(({ type, content }) => `${type}: ${String(content).slice(0, 300)}`)
      .join('\n')
  }

  /** A second hard link to the agent's log at the runner. The runner removes the log itself before the test can compare it. */
  get #secondName(): string {
    return join(dirname(this.scene.runnerHome), 'written')
  }

  /** Everything that the agent wrote at its runner. Undefined without a runner. */
  written(): string | undefined {
    return this.#runner && readFileSync(this.#secondName, 'utf8')
  }

  /** What the agent has written at its runner so far, as soon as it has arrived at the server. */
  async arrived(): Promise<string | undefined> {
    const written = this.written()
    if (written === undefined) return undefined
    const here = (): string => readFileSync(liveOutput(this.scene.home), 'utf8')
    await waitUntil(() => here().startsWith(written), 10_000, 'the output at the runner arrives at the server')
    return written
  }

  left(): readonly string[] {
    return [...leftOf(this.scene, this.ownProcesses), ...(this.#daemon ? leftAtDaemon(this.#daemon) : [])]
  }

  requireNothing(): void {
    requireNothing(this.left())
  }

  /** Waits until the runner has removed its agent, which happens a moment after the server has read the end of its stream. */
  async forgottenByRunner(): Promise<void> {
    const runner = this.#runner
    if (!runner) return
    const rows = async (): Promise<readonly Json[]> => await runner.get<Json[]>('/api/agents')
    await waitUntil(rows, 15_000, 'the runner removes its agent')
  }

  /** Ends the server with SIGTERM or SIGKILL. No other server is started yet. */
  async loseServer(signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
    this.server.ebb.signal(signal)
    await this.server.ebb.ended
    this.ownProcesses = this.#runnerProcesses
  }

  /** Starts the next server on the same home. Processes that existed before it do not count as its own. */
  async nextServer(): Promise<void> {
    const { scene } = this
    const before = ownProcessesOf(scene)
    this.server = await openServer(scene, settings(scene, { runner: this.#runner, daemon: this.#daemon }))
    this.ownProcesses = this.#runnerProcesses.union(ownProcessesOf(scene).difference(before))
  }

  async killRunner(): Promise<void> {
    this.#runner?.ebb.signal('SIGKILL')
    await this.#runner?.ebb.ended
  }

  /** Starts the next runner on the same home, at the same address. */
  async nextRunner(): Promise<void> {
    const { scene } = this
    const before = ownProcessesOf(scene)
    this.#runner = await openRunner(scene, this.#runner)
    this.#runnerProcesses = ownProcessesOf(scene).difference(before)
    this.ownProcesses = this.ownProcesses.union(this.#runnerProcesses)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.server.stop()
    await this.#runner?.stop()
  }
}

interface Around {
  readonly runner: TestServer | undefined
  readonly daemon: TestDaemon | undefined
}

interface Parts extends Around {
  readonly runnerProcesses: OwnProcesses
}

/** The settings that configure the server's runner or daemon. */
function settings(scene: Scene, { runner, daemon }: Around): readonly string[] {
  return [...(runner ? ['--remote-url', runner.url] : []), ...(daemon ? dockerWords(scene, daemon) : [])]
}
