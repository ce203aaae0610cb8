import { linkSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { TestDaemon } from '../../support/docker.ts'
import type { Json, TestServer } from '../../support/server.ts'
import { waitUntil } from '../../support/world.ts'
import { dockerWords, leftAtDaemon } from './container.ts'
import { launchBody, openRunner, openServer, type Placement, patienceMs, type Scene } from './scene.ts'
import { leftOf, requireNothing, type Staff, staffOf } from './sight.ts'
import { liveOutput } from './transcript.ts'

/** One agent of a real `ebb serve`, and the server after it, where the first one went; with a runner, where it runs at one. */

const nobody: Staff = new Set()

export class Stage implements AsyncDisposable {
  readonly scene: Scene
  readonly placement: Placement
  server: TestServer
  /** The runner's alone while there is no server. */
  staff: Staff
  #runnerStaff: Staff
  #runner: TestServer | undefined
  readonly #daemon: TestDaemon | undefined
  #id: string | undefined

  private constructor(scene: Scene, placement: Placement, server: TestServer, more: Parts) {
    this.scene = scene
    this.placement = placement
    this.server = server
    this.#runner = more.runner
    this.#runnerStaff = more.runnerStaff
    this.#daemon = more.daemon
    this.staff = staffOf(scene)
  }

  /** With the daemon that has the containers, for the placement docker. */
  static async open(scene: Scene, placement: Placement, daemon?: TestDaemon): Promise<Stage> {
    const runner = placement === 'remote' ? await openRunner(scene) : undefined
    const runnerStaff = runner ? staffOf(scene) : nobody
    const server = await openServer(scene, settings(scene, { runner, daemon }))
    return new Stage(scene, placement, server, { runner, runnerStaff, daemon })
  }

  get id(): string {
    if (this.#id === undefined) throw new Error('There is no agent on this stage yet.')
    return this.#id
  }

  get path(): string {
    return `/api/agents/${this.id}`
  }

  async launch(hasMcp: boolean): Promise<void> {
    this.#id = await this.server.launch(launchBody(this.scene, { placement: this.placement, hasMcp }))
    if (this.#runner) linkSync(liveOutput(this.scene.runnerHome), this.#secondName)
  }

  /** Its last status. */
  async over(): Promise<string> {
    const until = performance.now() + patienceMs
    for (;;) {
      const { status } = await this.server.get<Json>(`${this.path}/status?wait=10000`)
      if (!['initializing', 'running', 'stopping'].includes(status)) return status
      if (performance.now() > until) throw new Error(`The agent is still ${status}, and last said: ${await this.lastWords()}`)
    }
  }

  async lastWords(): Promise<string> {
    const messages: Json[] = await this.server.get(`${this.path}/messages`)
    return messages
      .slice(-5)
      .map(({ type, content }) => `${type}: ${String(content).slice(0, 300)}`)
      .join('\n')
  }

  /** Of its log at the runner, which goes with everything that the runner has of it, before anybody could compare. */
  get #secondName(): string {
    return join(dirname(this.scene.runnerHome), 'written')
  }

  /** All that the agent has written at its runner, to the last byte; nothing of one that has no runner. */
  written(): string | undefined {
    return this.#runner && readFileSync(this.#secondName, 'utf8')
  }

  /** What it has written by now at its runner, once it is here. */
  async arrived(): Promise<string | undefined> {
    const written = this.written()
    if (written === undefined) return undefined
    const here = (): string => readFileSync(liveOutput(this.scene.home), 'utf8')
    await waitUntil(() => here().startsWith(written), 10_000, 'what the agent said at its runner is here')
    return written
  }

  left(): readonly string[] {
    return [...leftOf(this.scene, this.staff), ...(this.#daemon ? leftAtDaemon(this.#daemon) : [])]
  }

  requireNothing(): void {
    requireNothing(this.left())
  }

  /** What an agent was at its runner goes by itself, a moment after whoever streamed it has its end. */
  async forgottenByRunner(): Promise<void> {
    const runner = this.#runner
    if (!runner) return
    const rows = async (): Promise<readonly Json[]> => await runner.get<Json[]>('/api/agents')
    await waitUntil(rows, 15_000, 'the runner has forgotten its agent')
  }

  /** SIGTERM or SIGKILL; nobody comes after it yet. */
  async loseServer(signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
    this.server.ebb.signal(signal)
    await this.server.ebb.ended
    this.staff = this.#runnerStaff
  }

  /** The next server on the same home; whoever was there before it is not of its staff. */
  async nextServer(): Promise<void> {
    const { scene } = this
    const before = staffOf(scene)
    this.server = await openServer(scene, settings(scene, { runner: this.#runner, daemon: this.#daemon }))
    this.staff = this.#runnerStaff.union(staffOf(scene).difference(before))
  }

  async killRunner(): Promise<void> {
    this.#runner?.ebb.signal('SIGKILL')
    await this.#runner?.ebb.ended
  }

  /** The next runner on the same home, at the same address. */
  async nextRunner(): Promise<void> {
    const { scene } = this
    const before = staffOf(scene)
    this.#runner = await openRunner(scene, this.#runner)
    this.#runnerStaff = staffOf(scene).difference(before)
    this.staff = this.staff.union(this.#runnerStaff)
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
  readonly runnerStaff: Staff
}

/** By which the server knows its runner, or its daemon. */
function settings(scene: Scene, { runner, daemon }: Around): readonly string[] {
  return [...(runner ? ['--remote-url', runner.url] : []), ...(daemon ? dockerWords(scene, daemon) : [])]
}
