import { basename } from 'node:path'
import { logLabels } from '../../core/ports/agent-log.ts'
import type { Stdio } from '../../core/ports/effects.ts'
import { type Planned, planned } from '../../core/ports/kind.ts'
import { type ProcessLaunch, processTreeKind, type TreeLaunch, type TreeSpec, treeLabel } from '../../core/ports/process.ts'
import { requireProgram } from '../../host/program.ts'
import { type LaunchContext, planFiles } from '../files.ts'
import { planTemp } from '../temp.ts'

/** Placement `process`: a command on this host, with its process tree and, when the launch asks for them, its logs. */

/**
 * Returns the resources of a launch, in the order of their creation. Throws when the program cannot be started, before anything is created.
 */
export function planProcess(context: LaunchContext, scopeId: string, launch: ProcessLaunch): readonly Planned[] {
  requireProgram(launch.argv, launch.env, launch.cwd)
  const temp = planTemp(context, scopeId, launch)
  const files = [...planFiles(context, scopeId, launch, 'collector'), ...temp.planned]
  const live: TreeLaunch = {
    argv: launch.argv,
    env: temp.env,
    cwd: launch.cwd,
    stdin: typeof launch.stdin === 'object' ? { ...launch.stdin, directory: context.logDirectory } : launch.stdin,
    streams: [
      ...(launch.output === 'logs' ? logLabels.map((log) => ({ log })) : ([launch.output, launch.output] as const)),
      ...further(launch.descriptors),
    ],
    detached: launch.output !== 'inherit',
    ...(launch.ignoredSignals && { ignoredSignals: launch.ignoredSignals }),
    ...(launch.limits && { limits: launch.limits }),
  }
  const spec: TreeSpec = {
    ...context.containment.place(launch.limits),
    containment: context.containment.name,
    installation: context.installation,
    program: basename(launch.argv[0] ?? ''),
    ...(launch.politeSignal && { politeSignal: launch.politeSignal }),
  }
  const tree = planned({ label: treeLabel, kind: processTreeKind, spec, live, dependsOn: files.map(({ label }) => label) })
  return [...files, tree]
}

/**
 * The stdio entries from descriptor 3 on. Each of the given descriptors is passed under its own number. Numbers in between stay closed,
 * because uv_spawn opens no ignored descriptor above 2.
 */
function further(descriptors: readonly number[] = []): readonly Stdio[] {
  const last = Math.max(2, ...descriptors)
  return Array.from({ length: last - 2 }, (_, index) => (descriptors.includes(index + 3) ? index + 3 : 'ignore'))
}
