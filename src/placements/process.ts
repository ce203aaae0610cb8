import { basename, join } from 'node:path'
import type { Stdio } from '../ports/effects.ts'
import type { Planned } from '../ports/kind.ts'
import {
  type ContainmentName,
  type Limits,
  type LogSpec,
  logLabels,
  type ProcessLaunch,
  type TreeLaunch,
  type TreePlace,
  type TreeSpec,
  treeLabel,
} from '../ports/process.ts'
import { requireProgram } from './program.ts'

/** Placement `process`: a command on this host, with its logs, where it has any, and its tree. */

/** Where this supervisor's processes go. */
export interface ProcessPlacement {
  readonly installation: string
  readonly containment: { readonly name: ContainmentName; place(limits?: Limits): TreePlace }
  readonly logDirectory: string
  readonly archiveDirectory: string
}

/** The ordered plan of intents. Throws, and nothing exists yet, when the program cannot start. */
export function planProcess(placement: ProcessPlacement, scopeId: string, launch: ProcessLaunch): readonly Planned[] {
  requireProgram(launch.argv, launch.env, launch.cwd)
  const hasLogs = launch.output === 'logs'
  const spec: TreeSpec = {
    ...placement.containment.place(launch.limits),
    containment: placement.containment.name,
    installation: placement.installation,
    program: basename(launch.argv[0] ?? ''),
    ...(launch.politeSignal && { politeSignal: launch.politeSignal }),
  }
  const live: TreeLaunch = {
    argv: launch.argv,
    env: launch.env,
    cwd: launch.cwd,
    stdio: [
      typeof launch.stdin === 'object' ? { ...launch.stdin, directory: placement.logDirectory } : launch.stdin,
      ...(hasLogs ? logLabels.map((log) => ({ log })) : (['inherit', 'inherit'] as const)),
      ...further(launch.descriptors),
    ],
    detached: hasLogs,
    ...(launch.limits && { limits: launch.limits }),
  }
  const logs = hasLogs ? logLabels.map((label): Planned => ({ label, kind: 'log', spec: logSpec(placement, scopeId, label) })) : []
  return [...logs, { label: treeLabel, kind: 'process-tree', spec, live, dependsOn: logs.map((log) => log.label) }]
}

function logSpec(placement: ProcessPlacement, scopeId: string, label: string): LogSpec {
  return {
    installation: placement.installation,
    directory: placement.logDirectory,
    archive: join(placement.archiveDirectory, scopeId, `${label}.log`),
  }
}

/** Each descriptor at its own number; those between are left closed (uv_spawn: an ignored one above 2 is not opened). */
function further(descriptors: readonly number[] = []): readonly Stdio[] {
  const last = Math.max(2, ...descriptors)
  return Array.from({ length: last - 2 }, (_, index) => (descriptors.includes(index + 3) ? index + 3 : 'ignore'))
}
