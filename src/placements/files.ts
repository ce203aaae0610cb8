import { dirname, join } from 'node:path'
import type { OnLoss } from '../core/model/resource.ts'
import { workspaceFiles } from '../core/model/task.ts'
import { type LogSpec, type LogWriter, logKind, logLabel, logLabels, reportStreams } from '../core/ports/agent-log.ts'
import { label } from '../core/ports/handles.ts'
import { type Planned, planned } from '../core/ports/kind.ts'
import type { AgentWorkspace, ContainmentName, Limits, ProcessLaunch, TreePlace } from '../core/ports/process.ts'
import type { Confined } from '../host/path.ts'
import { fileKind } from '../kinds/file/kind.ts'

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
  const logs = launch.output === 'logs' ? logLabels.map((stream) => planLog(context, scopeId, stream, writer, workspace)) : []
  const prompt = workspace && typeof launch.stdin === 'object' ? [planPrompt(promptIn(workspace), launch.stdin.text)] : []
  const reports = workspace ? reportStreams.map((stream) => planReport(context, stream, workspace)) : []
  const configs = config ? [planConfig(context, scopeId, config)] : []
  return [...configs, ...prompt, ...logs, ...reports]
}

/** The path of a configuration file, relative to the home. */
export function configPath({ home, runDirectory }: Pick<LaunchContext, 'home' | 'runDirectory'>, scopeId: string, name: string): string {
  return join(runDirectory.slice(home.length + 1), `${scopeId}.${name}`)
}

function planConfig(context: LaunchContext, scopeId: string, { name, text }: NonNullable<ProcessLaunch['config']>): Planned {
  const spec = { workspace: context.home, path: configPath(context, scopeId, name) }
  return planned({ label: label('config'), kind: fileKind, spec, live: text })
}

/** The file with the prompt of an agent whose task has a workspace. */
export function promptIn({ base, path, agentName }: AgentWorkspace): Confined {
  return { workspace: base, path: join(path, workspaceFiles(agentName).prompt) }
}

export function planPrompt(spec: Confined, text: string): Planned {
  return planned({ label: label('prompt'), kind: fileKind, spec, live: text })
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
  return planned({ label: stream, kind: logKind, spec })
}

function planReport({ installation }: LaunchContext, stream: (typeof reportStreams)[number], workspace: AgentWorkspace): Planned {
  const inside = insideWorkspace(workspace, workspaceFiles(workspace.agentName)[stream])
  return planned({ label: logLabel(stream), kind: logKind, spec: { ...inside, installation, stream, writer: 'supervisor' } })
}

function insideWorkspace({ base, path }: AgentWorkspace, file: string): Pick<LogSpec, 'inside' | 'directory' | 'archive'> {
  const inside = { workspace: base, path: join(path, file), archive: join(path, 'archive', file.slice(file.indexOf('/') + 1)) }
  return { inside, directory: join(base, dirname(inside.path)), archive: join(base, inside.archive) }
}
