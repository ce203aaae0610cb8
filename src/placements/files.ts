import { dirname, join } from 'node:path'
import type { OnLoss } from '../core/model/resource.ts'
import { workspaceFiles } from '../core/model/task.ts'
import type { Planned } from '../core/ports/kind.ts'
import {
  type AgentWorkspace,
  type ContainmentName,
  type Limits,
  type LogSpec,
  type LogWriter,
  logLabels,
  type ProcessLaunch,
  reportLabels,
  type TreePlace,
} from '../core/ports/process.ts'

export const promptLabel = 'prompt'

/** The directories, names and containment with which this supervisor launches agents. */
export interface LaunchContext {
  readonly installation: string
  readonly containment: { readonly name: ContainmentName; place(limits?: Limits, onLoss?: OnLoss): TreePlace }
  readonly home: string
  readonly logDirectory: string
  readonly archiveDirectory: string
  /** The run directory lies inside `home`. */
  readonly runDirectory: string
  /** The directory for temporary files of the system. Temp folders of agents are created in it. */
  readonly tempDirectory: () => string
  /** The wall clock, in milliseconds since the epoch. */
  readonly now: () => number
  /** The containment of processes that a daemon starts, such as a tmux server. They are no descendants of this supervisor. */
  readonly daemonContainment: LaunchContext['containment']
  /** True when agents in tmux and in containers keep running after this supervisor is lost. */
  readonly keepsSessions: boolean
}

/** The files of an agent in any placement: its logs, and, when its task has a workspace, its prompt and its reports. */
export function planFiles(context: LaunchContext, scopeId: string, launch: ProcessLaunch, writer: LogWriter): readonly Planned[] {
  const { workspace, config } = launch
  const logs = launch.output === 'logs' ? logLabels.map((label) => planLog(context, scopeId, label, writer, workspace)) : []
  const prompt = workspace && typeof launch.stdin === 'object' ? [planPrompt(workspace, launch.stdin.text)] : []
  const reports = workspace ? reportLabels.map((label) => planReport(context, label, workspace)) : []
  const configs = config ? [planFile('config', context.home, configPath(context, scopeId, config.name), config.text)] : []
  return [...configs, ...prompt, ...logs, ...reports]
}

/** The path of a configuration file, relative to the home. */
export function configPath({ home, runDirectory }: Pick<LaunchContext, 'home' | 'runDirectory'>, scopeId: string, name: string): string {
  return join(runDirectory.slice(home.length + 1), `${scopeId}.${name}`)
}

export function planFile(label: string, workspace: string, path: string, content: string): Planned {
  return { label, kind: 'file', spec: { workspace, path }, live: content }
}

function planPrompt({ base, path, agentName }: AgentWorkspace, text: string): Planned {
  return planFile(promptLabel, base, join(path, workspaceFiles(agentName).prompt), text)
}

/** In a workspace, standard output has the fixed name that other programs read. Standard error always goes to Ebb's own log folder. */
function planLog(
  { installation, logDirectory, archiveDirectory }: LaunchContext,
  scopeId: string,
  stream: (typeof logLabels)[number],
  writer: LogWriter,
  workspace: AgentWorkspace | undefined,
): Planned {
  const spec: LogSpec =
    workspace && stream === 'stdout'
      ? { ...insideWorkspace(workspace, workspaceFiles(workspace.agentName).stream), installation, stream, writer }
      : { installation, directory: logDirectory, archive: join(archiveDirectory, scopeId, `${stream}.log`), stream, writer }
  return { label: stream, kind: 'log', spec }
}

function planReport({ installation }: LaunchContext, label: (typeof reportLabels)[number], workspace: AgentWorkspace): Planned {
  const inside = insideWorkspace(workspace, workspaceFiles(workspace.agentName)[label])
  return { label, kind: 'log', spec: { ...inside, installation, stream: label, writer: 'supervisor' } satisfies LogSpec }
}

function insideWorkspace({ base, path }: AgentWorkspace, file: string): Pick<LogSpec, 'inside' | 'directory' | 'archive'> {
  const inside = { workspace: base, path: join(path, file), archive: join(path, 'archive', file.slice(file.indexOf('/') + 1)) }
  return { inside, directory: join(base, dirname(inside.path)), archive: join(base, inside.archive) }
}
