import { basename, join } from 'node:path'
import type { Planned } from '../ports/kind.ts'
import type { ContainmentName, Limits, LogSpec, TreeLaunch, TreePlace, TreeSpec } from '../ports/process.ts'
import { requireProgram } from './program.ts'

/** A process on this host: its logs, where it has any, and its tree. */
export interface ProcessLaunch {
  readonly argv: readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly cwd: string
  /** `inherit` passes ours through untouched; `logs` writes each stream to a file of its own. */
  readonly output: 'inherit' | 'logs'
  readonly stdin: 'inherit' | 'ignore' | 'pipe'
  readonly limits?: Limits
  readonly politeSignal?: NodeJS.Signals
}

/** Where this supervisor's processes go. */
export interface ProcessPlacement {
  readonly installation: string
  readonly containment: { readonly name: ContainmentName; place(limits?: Limits): TreePlace }
  readonly logDirectory: string
  readonly archiveDirectory: string
}

export const treeLabel = 'tree'
export const logLabels = ['stdout', 'stderr'] as const

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
    stdio: [launch.stdin, ...(hasLogs ? logLabels.map((log) => ({ log })) : (['inherit', 'inherit'] as const))],
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
