import { EbbError, isEbbError } from '../core/model/errors.ts'
import type { Planned } from '../core/ports/kind.ts'
import { isRemotePlacement, type PlacementTable } from '../core/ports/placement.ts'
import type { ProcessLaunch } from '../core/ports/process.ts'
import type { Assignment, Configuration, Invocation, Provider, ProviderCatalogue, Script } from '../core/ports/provider.ts'
import { mcpName, mcpText } from './mcp-file.ts'
import type { Caps } from './settings.ts'
import { planInside, type Workspace } from './workspace.ts'

/** A request to launch an agent, already validated by the interface that received it. */
export interface LaunchRequest {
  readonly type: string
  readonly prompt: string
  readonly placement?: string
  readonly namespace: string
  readonly requestId?: string
  readonly taskId?: string
  readonly parentAgentId?: string
  /** The name of an agent of a task or of an agent with a terminal: `TYPE-HHMMSS-xxxxxx`. */
  readonly name?: string
  /** The agent's id, when the caller needs to know it before the launch. */
  readonly id?: string
  /** Text that the program reads before the prompt. It is not part of the stored conversation. */
  readonly preamble?: string
  /** The workspace of the agent's task, inside the workspace folder of its base. It holds the agent's files. */
  readonly workspace?: Workspace
  /** The hash of the token that identifies the agent when it calls Ebb. */
  readonly tokenHash?: string
  /** The owning scope, when the caller has it already: for deployments into a task and for requests of the library. */
  readonly ownerScopeId?: string
  readonly configuration: Configuration
}

export interface PreflightDeps {
  readonly caps: Caps
  readonly catalogue: ProviderCatalogue
  readonly placementTable: PlacementTable
  /** The environment that agents inherit: this process's own, without Ebb's settings. */
  readonly environment: Readonly<Record<string, string>>
  readonly plan: (scopeId: string, launch: ProcessLaunch) => readonly Planned[]
  /** Checks the placement of the launch. Throws when the placement cannot start an agent now. */
  readonly requireReady: (launch: ProcessLaunch) => Promise<void>
  readonly freeBytes: () => number
  /** The path of a configuration file for the agent's program. */
  readonly configPath: (agentId: string, name: string) => string
}

/** MAX_ARG_STRLEN of execve(2), without the final NUL: the longest argument or variable that Linux allows. */
const mostBytes = 131_071

/** A launch that passed every check that is possible before anything exists. */
export interface Prepared {
  readonly provider: Provider
  readonly script: Script
  /** The intents of the launch. Empty for a synthetic agent without a process. */
  readonly plan: readonly Planned[]
}

/** Refuses launches that cannot start, before anything is created. */
export class Preflight {
  readonly #deps: PreflightDeps

  constructor(deps: PreflightDeps) {
    this.#deps = deps
  }

  requireRoom(running: number): void {
    const { caps, freeBytes } = this.#deps
    if (running >= caps.maxAgents)
      throw new EbbError(
        'too_many_agents',
        `${running} agents run or are being launched already, which is as many as --max-agents allows; stop one first.`,
      )
    const free = freeBytes()
    if (free < caps.minFreeBytes)
      throw new EbbError(
        'disk_low',
        `Only ${megabytes(free)} MB are free on the disk of the home, and --min-free wants ${megabytes(caps.minFreeBytes)}; make room first.`,
      )
  }

  async prepare(id: string, request: LaunchRequest): Promise<Prepared> {
    const provider = this.#provider(request)
    const { configuration } = request
    const servers = configuration.mcp?.servers ?? []
    const mcpFile = servers.length > 0 ? this.#deps.configPath(id, mcpName) : undefined
    const assignment: Assignment = {
      agentId: id,
      prompt: promptOf(request),
      configuration,
      ...(mcpFile !== undefined && { mcpFile }),
    }
    const script = provider.script?.(assignment) ?? { events: [], hasProcess: true }
    const invocation = script.hasProcess ? provider.invoke(assignment) : undefined
    const plan = invocation ? await this.#plan(id, provider, invocation, request, mcpFile) : []
    return { provider, script, plan: request.workspace ? planInside(request.workspace, plan) : plan }
  }

  #provider({ type, placement }: LaunchRequest): Provider {
    const { catalogue } = this.#deps
    const provider = catalogue.find(type)
    if (!provider) throw unknown('type', `There is no provider "${type}"; use one of ${catalogue.types.join(', ')}.`)
    if (placement !== undefined && !this.#deps.placementTable.has(placement))
      throw unknown('placement', `There is no placement "${placement}"; use one of ${[...this.#deps.placementTable.keys()].join(', ')}.`)
    return provider
  }

  /** Turns every problem with the program or its folder into `launch_refused`. */
  async #plan(
    id: string,
    provider: Provider,
    invocation: Invocation,
    request: LaunchRequest,
    mcpFile: string | undefined,
  ): Promise<readonly Planned[]> {
    const { configuration, placement, name, workspace } = request
    const prompt = promptOf(request)
    const { limits, mcp } = configuration
    const ownEnv = {
      ...invocation.env,
      ...(mcpFile !== undefined && { EBB_MCP_CONFIG: mcpFile }),
      ...configuration.env,
    }
    requirePassable(invocation.argv, ownEnv)
    const env = { ...this.#deps.environment, ...ownEnv }
    const launch: ProcessLaunch = {
      ...(placement !== undefined && { placement }),
      ...(name !== undefined && { name }),
      ...(workspace && { workspace: { base: workspace.base, path: workspace.path, agentName: name ?? id } }),
      ...(mcpFile !== undefined && { config: { name: mcpName, text: mcpText(mcp?.servers ?? []) } }),
      argv: invocation.argv,
      env,
      ownEnv,
      // A caller that sets TMPDIR is responsible for the files there.
      hasTempFolder: configuration.env?.TMPDIR === undefined,
      leaves: provider.leaves?.(env) ?? [],
      cwd: configuration.workingDirectory ?? ownFolder(),
      ...(configuration.workingDirectory !== undefined && { workingDirectory: configuration.workingDirectory }),
      output: 'logs',
      stdin: { text: invocation.stdin },
      ...((limits?.memoryBytes !== undefined || limits?.pids !== undefined) && { limits }),
      ...(invocation.politeSignal && { politeSignal: invocation.politeSignal }),
      order: { agentId: id, type: provider.type, prompt, configuration },
    }
    try {
      const plan = this.#deps.plan(id, launch)
      if (isRemotePlacement(this.#deps.placementTable, request.placement)) await this.#deps.requireReady(launch)
      return plan
    } catch (error) {
      if (isEbbError(error, 'program_not_found') || isEbbError(error, 'program_not_executable') || isEbbError(error, 'limits_unavailable'))
        throw new EbbError('launch_refused', error.message, { cause: error })
      throw error
    }
  }
}

/** Refuses arguments and variables that are too long for execve(2). The error gives only the length, because a value may be secret. */
function requirePassable(argv: readonly string[], env: Readonly<Record<string, string>>): void {
  const refuse = (what: string, bytes: number): never => {
    const text = `${what} is ${bytes} bytes long, and no program can be given one of more than ${mostBytes}; put it into a file.`
    throw new EbbError('launch_refused', text)
  }
  for (const argument of argv) {
    const bytes = Buffer.byteLength(argument)
    if (bytes > mostBytes) refuse('An argument of the command', bytes)
  }
  for (const [name, value] of Object.entries(env)) {
    const bytes = Buffer.byteLength(`${name}=${value}`)
    if (bytes > mostBytes) refuse('A variable of the environment', bytes)
  }
}

function promptOf({ preamble, prompt }: LaunchRequest): string {
  return preamble === undefined ? prompt : `${preamble}\n\n${prompt}`
}

function ownFolder(): string {
  try {
    return process.cwd()
  } catch (cause) {
    throw new EbbError('launch_refused', 'The folder that Ebb was started in does not exist any more; give a workingDirectory.', { cause })
  }
}

function unknown(path: string, message: string): EbbError {
  return new EbbError('invalid_request', message, { details: [{ path, message: `unknown ${path === 'type' ? 'provider' : path}` }] })
}

function megabytes(bytes: number): number {
  return Math.floor(bytes / 1_048_576)
}
