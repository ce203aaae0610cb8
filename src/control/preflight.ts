import { EbbError, isEbbError } from '../domain/errors.ts'
import type { Planned } from '../ports/kind.ts'
import { type PlacementName, type ProcessLaunch, placementNames } from '../ports/process.ts'
import type { Assignment, Configuration, Invocation, Provider, ProviderCatalogue, Script } from '../ports/provider.ts'
import { mcpName, mcpText } from './mcp-file.ts'
import type { Caps } from './settings.ts'
import { planInside, type Workspace } from './tasks/workspace.ts'

/** What a client asks for when it launches an agent; validated at the edge. */
export interface LaunchRequest {
  readonly type: string
  readonly prompt: string
  readonly placement?: string
  readonly namespace: string
  readonly requestId?: string
  readonly taskId?: string
  readonly parentAgentId?: string
  /** As those who deployed it call it: `TYPE-HHMMSS-xxxxxx`. */
  readonly name?: string
  /** Its id, where somebody had to know it before. */
  readonly id?: string
  /** What its program reads in front of the prompt; no part of the conversation. */
  readonly preamble?: string
  /** The workspace of its task, in which it has its files; it lies in the workspace folder of `base`. */
  readonly workspace?: Workspace
  /** Of the token by which it is known when it calls back. */
  readonly tokenHash?: string
  /** The scope that owns it, where that is not one of the books' requests. */
  readonly ownerScopeId?: string
  readonly configuration: Configuration
}

export interface PreflightDeps {
  readonly caps: Caps
  readonly catalogue: ProviderCatalogue
  /** What an agent inherits: ours, without our settings. */
  readonly environment: Readonly<Record<string, string>>
  readonly plan: (scopeId: string, launch: ProcessLaunch) => readonly Planned[]
  readonly freeBytes: () => number
  /** Where a file that an agent's program reads will be. */
  readonly configPath: (agentId: string, name: string) => string
}

/** A launch of which everything is known that can be known before anything exists. */
export interface Prepared {
  readonly provider: Provider
  readonly script: Script
  /** Empty for an agent that is only played. */
  readonly plan: readonly Planned[]
}

/** What cannot start is refused here, before anything is made. */
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

  prepare(id: string, request: LaunchRequest): Prepared {
    const provider = this.#provider(request)
    const { configuration, preamble } = request
    const servers = configuration.mcp?.servers ?? []
    const mcpFile = servers.length > 0 ? this.#deps.configPath(id, mcpName) : undefined
    const assignment: Assignment = {
      agentId: id,
      prompt: preamble === undefined ? request.prompt : `${preamble}\n\n${request.prompt}`,
      configuration,
      ...(mcpFile !== undefined && { mcpFile }),
    }
    const script = provider.script?.(assignment) ?? { events: [], hasProcess: true }
    const invocation = script.hasProcess ? provider.invoke(assignment) : undefined
    const plan = invocation ? this.#plan(id, invocation, request, mcpFile) : []
    return { provider, script, plan: request.workspace ? planInside(request.workspace, plan) : plan }
  }

  #provider({ type, placement }: LaunchRequest): Provider {
    const { catalogue } = this.#deps
    const provider = catalogue.find(type)
    if (!provider) throw unknown('type', `There is no provider "${type}"; use one of ${catalogue.types.join(', ')}.`)
    if (placement !== undefined && !isPlacement(placement))
      throw unknown('placement', `There is no placement "${placement}"; use one of ${placementNames.join(', ')}.`)
    return provider
  }

  /** Whatever is the matter with the program or its folder is told in one way: the launch was refused. */
  #plan(id: string, invocation: Invocation, request: LaunchRequest, mcpFile: string | undefined): readonly Planned[] {
    const { configuration, placement, name, workspace } = request
    const { limits, mcp } = configuration
    try {
      return this.#deps.plan(id, {
        ...(placement !== undefined && { placement: placement as PlacementName }),
        ...(name !== undefined && { name }),
        ...(workspace && { workspace: { base: workspace.base, path: workspace.path, agentName: name ?? id } }),
        ...(mcpFile !== undefined && { config: { name: mcpName, text: mcpText(mcp?.servers ?? []) } }),
        argv: invocation.argv,
        env: {
          ...this.#deps.environment,
          ...invocation.env,
          ...(mcpFile !== undefined && { EBB_MCP_CONFIG: mcpFile }),
          ...configuration.env,
        },
        cwd: configuration.workingDirectory ?? ownFolder(),
        output: 'logs',
        stdin: { text: invocation.stdin },
        ...((limits?.memoryBytes !== undefined || limits?.pids !== undefined) && { limits }),
        ...(invocation.politeSignal && { politeSignal: invocation.politeSignal }),
      })
    } catch (error) {
      if (isEbbError(error, 'program_not_found') || isEbbError(error, 'program_not_executable') || isEbbError(error, 'limits_unavailable'))
        throw new EbbError('launch_refused', error.message, { cause: error })
      throw error
    }
  }
}

function isPlacement(name: string): name is PlacementName {
  return placementNames.some((known) => known === name)
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
