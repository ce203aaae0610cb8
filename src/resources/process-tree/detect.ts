import { createRequire } from 'node:module'
import { EbbError } from '../../domain/errors.ts'
import type { Effects } from '../../ports/effects.ts'
import type { Host } from '../../ports/host.ts'
import { type ContainmentName, containmentNames } from '../../ports/process.ts'
import { CgroupContainment, cgroupAvailable } from './cgroup.ts'
import type { Containment } from './containment.ts'
import type { ProcessTable } from './process-table.ts'
import { ScanContainment } from './scan.ts'
import { SubreaperContainment, subreaperAvailable } from './subreaper.ts'

/** What this machine offers, strongest first, and how to get what it does not. */
export interface Availability {
  readonly name: ContainmentName
  readonly available: boolean
  readonly reason?: string
  readonly remedy?: string
}

export interface Containments {
  readonly all: ReadonlyMap<ContainmentName, Containment>
  readonly net: ScanContainment
  /** What the sentinel writes to when we are dead; none where a scan must do it. */
  readonly killSwitch: string | undefined
  readonly availability: readonly Availability[]
}

export interface DetectDeps {
  readonly effects: Effects
  readonly host: Host
  readonly processes: ProcessTable
  readonly inheritedCookie: string | undefined
  readonly doors: string
  readonly node: string
}

export function detectContainments(deps: DetectDeps): Containments {
  const net = new ScanContainment({ ...deps, directory: deps.doors })
  const all = new Map<ContainmentName, Containment>()
  const cgroup = cgroupAvailable()
  const strongest = 'mount' in cgroup ? new CgroupContainment(cgroup.mount, deps) : undefined
  if (strongest) all.set('cgroup', strongest)
  const subreaper = subreaperAvailable(createRequire(import.meta.url))
  if (subreaper === undefined) all.set('subreaper', new SubreaperContainment({ ...deps, net }))
  all.set('scan', net)
  const remedies: Partial<Record<ContainmentName, { reason: string; remedy: string }>> = {
    ...('reason' in cgroup && {
      cgroup: {
        reason: cgroup.reason,
        remedy: 'Start Ebb in a cgroup of its own: systemd-run --user --scope --property=Delegate=yes ebb …, or run it as root.',
      },
    }),
    ...(subreaper !== undefined && { subreaper: { reason: subreaper, remedy: 'Install the optional dependency: npm install koffi.' } }),
  }
  return {
    all,
    net,
    killSwitch: strongest?.killSwitch,
    availability: containmentNames.map((name) => ({ name, available: all.has(name), ...remedies[name] })),
  }
}

/** The one that was asked for, or the strongest. */
export function chooseContainment(wanted: 'auto' | ContainmentName, { all, availability }: Containments): Containment {
  const found = wanted === 'auto' ? all.values().next().value : all.get(wanted)
  if (found) return found
  const why = availability.find((one) => one.name === wanted)
  throw new EbbError(
    'containment_unavailable',
    `The containment ${wanted} is not available: ${why?.reason ?? 'unknown'}. ${why?.remedy ?? ''}`.trim(),
  )
}
