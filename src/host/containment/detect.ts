import { EbbError } from '../../core/model/errors.ts'
import type { Clock } from '../../core/ports/clock.ts'
import type { Effects } from '../../core/ports/effects.ts'
import type { Host } from '../../core/ports/host.ts'
import { type ContainmentName, containmentNames } from '../../core/ports/process.ts'
import type { ProcessTable } from '../processes/process-table.ts'
import { CgroupContainment, cgroupAvailable } from './cgroup.ts'
import type { Containment } from './containment.ts'
import { ScanContainment } from './scan.ts'
import { SubreaperContainment, subreaperUnavailable } from './subreaper.ts'

/** Whether this machine offers a containment; if not, why, and how to get it. */
export interface Availability {
  readonly name: ContainmentName
  readonly available: boolean
  readonly reason?: string
  readonly remedy?: string
}

export interface Containments {
  readonly all: ReadonlyMap<ContainmentName, Containment>
  readonly fallbackScan: ScanContainment
  /** The file that the sentinel writes to when this supervisor is dead; undefined without cgroups, where the recovery scans. */
  readonly killSwitch: string | undefined
  /** The gate to the cgroup of the tmux server; undefined without cgroups. */
  terminalGate(): string | undefined
  /** The availability of one containment. Checking all of them looks for koffi, which takes longer than the rest of the detection. */
  availabilityOf(name: ContainmentName): Availability
  readonly availability: readonly Availability[]
}

export interface DetectDeps {
  readonly effects: Effects
  readonly host: Host
  readonly clock: Clock
  readonly processes: ProcessTable
  readonly inheritedTag: string | undefined
  readonly gates: string
  readonly node: string
}

export function detectContainments(deps: DetectDeps): Containments {
  const fallbackScan = new ScanContainment({ ...deps, directory: deps.gates })
  const all = new Map<ContainmentName, Containment>()
  const cgroup = cgroupAvailable()
  const strongest = 'mount' in cgroup ? new CgroupContainment(cgroup.mount, deps) : undefined
  if (strongest) all.set('cgroup', strongest)
  // The subreaper containment is always listed on Linux, because ending a tree of an earlier supervisor needs no koffi. Whether it can
  // start a tree is checked at the launch.
  if (process.platform === 'linux') all.set('subreaper', new SubreaperContainment({ ...deps, fallbackScan }))
  all.set('scan', fallbackScan)
  const availabilityOf = (name: ContainmentName): Availability => {
    // Whether cgroups are available is checked on each call: a mount can become read-only or disappear while a server runs for weeks.
    const now = name === 'cgroup' ? cgroupAvailable() : undefined
    if (now && 'reason' in now) return { name, available: false, reason: now.reason, remedy: cgroupRemedy }
    const reason = name === 'subreaper' ? subreaperUnavailable() : undefined
    return reason === undefined ? { name, available: true } : { name, available: false, reason, remedy: subreaperRemedy }
  }
  return {
    all,
    fallbackScan,
    killSwitch: strongest?.killSwitch,
    terminalGate: () => strongest?.terminalGate(),
    availabilityOf,
    get availability() {
      return containmentNames.map(availabilityOf)
    },
  }
}

const cgroupRemedy = 'Start Ebb in a cgroup of its own: systemd-run --user --scope --property=Delegate=yes ebb …, or run it as root.'
const subreaperRemedy = 'Install the optional dependency: npm install koffi.'

/** The requested containment, or the strongest available one for `auto`. */
export function chooseContainment(wanted: 'auto' | ContainmentName, { all, availabilityOf }: Containments): Containment {
  let unavailable: Availability | undefined
  // `scan` is always available.
  for (const name of wanted === 'auto' ? containmentNames : [wanted]) {
    const found = all.get(name)
    // A cgroup containment exists only where the detection has just found it available.
    if (found && name === 'cgroup') return found
    unavailable = availabilityOf(name)
    if (found && unavailable.available) return found
  }
  throw new EbbError(
    'containment_unavailable',
    `The containment ${wanted} is not available: ${unavailable?.reason ?? 'unknown'}. ${unavailable?.remedy ?? ''}`.trim(),
  )
}
