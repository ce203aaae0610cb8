import { basename } from 'node:path'
import { EbbError } from '../../core/model/errors.ts'
import type { OnLoss } from '../../core/model/resource.ts'
import { logLabels } from '../../core/ports/agent-log.ts'
import { type Planned, planned } from '../../core/ports/kind.ts'
import type { Placement } from '../../core/ports/placement.ts'
import { type ProcessLaunch, processTreeKind, sessionLabel, type TreeLaunch, type TreeSpec, treeLabel } from '../../core/ports/process.ts'
import { confine } from '../../host/path.ts'
import { findProgram, requireProgram } from '../../host/program.ts'
import type { PlacementParts } from '../definition.ts'
import { configPath, type LaunchContext, planFiles, planPrompt, promptIn } from '../files.ts'
import { planTemp } from '../temp.ts'
import { type SessionSpec, TmuxSessionKind, tmuxSessionKind } from './kind.ts'
import { sessionName, socketIn } from './names.ts'
import { Tmux, throughGate } from './tmux.ts'

/** Placement `tmux`: the command in the pane of a session of its own, which a person can watch. */

export function openTmux(parts: PlacementParts): Placement {
  const { context, environment, agentEnvironment, terminalGate } = parts
  const socket = socketIn(context.home)
  const sessions = new TmuxSessionKind({
    ...parts,
    tmux: new Tmux({ effects: parts.effects, socket, environment }),
    directory: context.runDirectory,
    socket,
    throughGate: (argv) => throughGate(terminalGate(), argv),
  })
  return {
    name: 'tmux',
    kinds: [sessions],
    isUsable: () => findProgram('tmux', agentEnvironment) !== undefined,
    plan: (scopeId, launch) => planTmux(context, scopeId, launch),
  }
}

/** The size of sun_path in unix(7), including the terminating NUL. */
const socketPathBytes = 108

/**
 * The process tree depends on the session, although tmux is its parent. So the processes are ended and observed gone while their terminal
 * still exists, then the session is killed, and then the files of both are handled.
 */
function planTmux(context: LaunchContext, scopeId: string, launch: ProcessLaunch): readonly Planned[] {
  requireProgram(launch.argv, launch.env, launch.cwd)
  requireTmux(context, launch.env)
  const { installation, daemonContainment, runDirectory, keepsSessions } = context
  const onLoss: OnLoss = keepsSessions ? 'keep' : 'end'
  const temp = planTemp(context, scopeId, launch)
  const files = [...planFiles(context, scopeId, launch, 'terminal'), ...temp.planned]
  const text = typeof launch.stdin === 'object' ? launch.stdin.text : undefined
  // In a workspace the prompt is among the files.
  const known = launch.workspace && text !== undefined ? promptIn(launch.workspace) : undefined
  const prompt = known ?? { workspace: context.home, path: configPath(context, scopeId, 'prompt') }
  const written = known ? files : [planPrompt(prompt, text ?? ''), ...files]
  const spec: TreeSpec = {
    ...daemonContainment.place(launch.limits, onLoss),
    containment: daemonContainment.name,
    installation,
    program: basename(launch.argv[0] ?? ''),
    ...(launch.politeSignal && { politeSignal: launch.politeSignal }),
    ...(keepsSessions && { isKept: true }),
  }
  const live: TreeLaunch = {
    argv: launch.argv,
    env: temp.env,
    cwd: launch.cwd,
    stdin: 'ignore',
    streams: [],
    detached: false,
    terminal: { label: sessionLabel, stdin: confine(prompt), stdout: logLabels[0], stderr: logLabels[1] },
    ...(launch.limits && { limits: launch.limits }),
  }
  const session: SessionSpec = {
    installation,
    socket: socketIn(context.home),
    directory: runDirectory,
    session: sessionName(launch.name ?? scopeId),
  }
  const names = written.map(({ label }) => label)
  const plan: readonly Planned[] = [
    ...written,
    planned({ label: sessionLabel, kind: tmuxSessionKind, spec: session, dependsOn: names }),
    planned({ label: treeLabel, kind: processTreeKind, spec, live, dependsOn: [...names, sessionLabel] }),
  ]
  return plan.map((resource) => ({ ...resource, onLoss }))
}

function requireTmux({ home }: LaunchContext, env: Readonly<Record<string, string>>): void {
  if (findProgram('tmux', env) === undefined)
    throw new EbbError('launch_refused', 'The placement tmux needs tmux on the PATH; install it, or use the placement process.')
  const socket = socketIn(home)
  if (Buffer.byteLength(socket) >= socketPathBytes)
    throw new EbbError('launch_refused', `The path ${socket} is too long for a socket; use a --home with a shorter one.`)
}
