import type { Config } from '../../config/config.ts'
import type { Report } from '../../core/model/report.ts'
import type { Client } from '../client/client.ts'
import type { Conversation } from '../client/follow.ts'

/** Where `ebb run` runs its agent: on the running server, or on an engine in this process. */
export interface AgentBackend extends Conversation {
  launch(body: LaunchBody): Promise<string>
  stop(id: string, request: { readonly force: boolean; readonly graceMs: number }): Promise<Report>
  /** Deletes everything of the agent. Throws `not_released`, with the report, if the deletion cannot be proven. */
  remove(id: string): Promise<void>
  /** Whether the agent backend still answers. This is asked after the terminal was closed. */
  answers(): Promise<boolean>
  /** The message of a command that exits before the end of the agent, or of its launch, is proven. */
  farewell(id: string | undefined): string
  /** Closes the agent backend. `isClean`: the agent was released. Returns false if something is left. */
  leave(isClean: boolean): Promise<boolean>
}

/** The body of `POST /agents`. */
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
        ? `the server at ${client.url} does not answer; the launch may still happen there. Run "ebb ps" when the server answers again.`
        : `the server at ${client.url} does not answer; the agent ${id} may still run there. Run "ebb show ${id}" when the server answers again.`,
    leave: async () => true,
  }
}

/** The settings of a launch besides the provider and the prompt. `folder` is undefined for a launch on another machine. */
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
