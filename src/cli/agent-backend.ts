import type { Config } from '../config/config.ts'
import type { Report } from '../core/model/report.ts'
import type { Client } from './client.ts'
import type { Conversation } from './follow.ts'

/** Where `ebb run` has its agent: on the running server, or on an engine of its own. */
export interface AgentBackend extends Conversation {
  launch(body: LaunchBody): Promise<string>
  stop(id: string, closeRequest: { readonly force: boolean; readonly graceMs: number }): Promise<Report>
  /** Everything of it goes; throws `not_released`, with the report, when that cannot be proven. */
  remove(id: string): Promise<void>
  /** Whether it is still there; asked when nobody else can be. */
  answers(): Promise<boolean>
  /** A sentence for who leaves before the end of the agent, or of its launch, is proven. */
  farewell(id: string | undefined): string
  /** What the stage itself holds is let go of; `isClean` when the agent was. False: something is left. */
  leave(isClean: boolean): Promise<boolean>
}

/** As `POST /agents` takes it. */
export interface LaunchBody {
  readonly type: string
  readonly prompt: string
  readonly placement?: string
  readonly namespace?: string
  readonly configuration: {
    readonly workingDirectory?: string
    readonly model?: string
    readonly timeout?: number
    readonly command?: readonly string[]
  }
}

export function serverBackend(client: Client): AgentBackend {
  return {
    launch: async (body) => (await client.post<{ id: string }>('/agents', body)).id,
    agent: (id) => client.agent(id),
    messages: (id, since, waitMs) => client.messages(id, since, waitMs),
    stop: (id, { force, graceMs }) => client.post(`/agents/${id}/stop`, force ? { force } : { grace: graceMs }),
    remove: (id) => client.delete(`/agents/${id}`),
    answers: () =>
      client.pid().then(
        () => true,
        () => false,
      ),
    farewell: (id) =>
      id === undefined
        ? `the server at ${client.url} does not answer; the launch may still happen there, and "ebb ps" shows it then.`
        : `the server at ${client.url} does not answer; the agent ${id} may still run there: "ebb show ${id}" tells when it does.`,
    leave: async () => true,
  }
}

/** What a launch says besides the provider and the prompt. A folder of ours means nothing on another machine. */
export function settingsOf(config: Config, folder: string | undefined): Omit<LaunchBody, 'type' | 'prompt'> {
  const { placement, namespace, cwd = folder, model, timeout } = config
  return {
    ...(placement !== undefined && { placement }),
    ...(namespace !== undefined && { namespace }),
    configuration: {
      ...(cwd !== undefined && { workingDirectory: cwd }),
      ...(model !== undefined && { model }),
      ...(timeout !== undefined && { timeout }),
    },
  }
}
