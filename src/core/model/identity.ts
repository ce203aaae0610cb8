/**
 * Ownership: installations, incarnations, and the environment tag on every process of ours. An incarnation's id is enough to find its
 * process, so a lost ledger cannot make the agents of a living supervisor look like orphans.
 */

/** One life of one supervisor process. A pid alone is not an identity, because the kernel reuses pids. */
export interface Incarnation {
  readonly bootId: string
  readonly pidNamespace: string
  readonly pid: number
  /** Start time in the kernel's own unit (on Linux, clock ticks since boot). It is compared, never shown. */
  readonly startTime: string
}

export type Vitality = 'alive' | 'dead' | 'unknown'

/** Twelve hex digits of the boot id keep cgroup names short. 48 bits are enough to avoid accidental collisions. */
export function shortBootId(bootId: string): string {
  return bootId.replaceAll('-', '').slice(0, 12)
}

export function incarnationId(of: Incarnation): string {
  return `${shortBootId(of.bootId)}-${of.pidNamespace}-${of.pid}-${of.startTime}`
}

export interface IncarnationName {
  readonly shortBootId: string
  readonly pidNamespace: string
  readonly pid: number
  readonly startTime: string
}

export function parseIncarnationId(id: string): IncarnationName | undefined {
  const match = /^([0-9a-f]{1,12})-([0-9]+)-([0-9]+)-([0-9]+)$/.exec(id)
  if (!match) return undefined
  const [, boot = '', pidNamespace = '', pid = '', startTime = ''] = match
  return { shortBootId: boot, pidNamespace, pid: Number(pid), startTime }
}

/** The owner that a mark names. A mark is an environment tag, a label, or the like. */
export interface Mark {
  readonly installation: string
  readonly incarnation: string
  readonly resourceId: string
}

export const environmentTagName = 'EBB_SCOPE'

export function environmentTag(mark: Mark): string {
  return `${mark.installation}/${mark.incarnation}/${mark.resourceId}`
}

/** An Ebb that runs inside an agent of another Ebb appends its tag to the outer one, so that both find the process. */
export function chainTag(inherited: string | undefined, own: string): string {
  return inherited ? `${inherited}:${own}` : own
}

/**
 * The tag of processes inside a container. This host sees these processes, too, but only their container may end them. No resource id
 * contains a plus (`isSafeId`), so the tag belongs to no process tree, and a search for unrecorded process trees does not end them.
 */
export function containerTag(mark: Mark): string {
  return environmentTag({ ...mark, resourceId: `${mark.resourceId}+container` })
}

export function parseEnvironmentTags(value: string): readonly Mark[] {
  return value.split(':').flatMap((part) => {
    const [installation, incarnation, resourceId, ...rest] = part.split('/')
    if (!installation || !incarnation || !resourceId || rest.length > 0) return []
    return [{ installation, incarnation, resourceId }]
  })
}

/** A resource id begins with the id of its scope, so that a scope's resources can be found without the ledger. */
export function resourceId(scopeId: string, ordinal: number): string {
  return `${scopeId}.${ordinal}`
}

export function scopeOfResource(id: string): string {
  return id.slice(0, Math.max(0, id.lastIndexOf('.')))
}

/** The position of a resource in its scope's plan. A resource depends only on resources with a lower ordinal. */
export function ordinalOfResource(id: string): number {
  return Number(id.slice(id.lastIndexOf('.') + 1)) || 0
}

/** Ids become directory names and parts of environment tags, so all other characters are refused. */
export function isSafeId(id: string): boolean {
  return /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/.test(id) && !id.includes('..')
}

/**
 * Identifies a file for good. A path can come to name another file, and inode numbers are reused, so the birth time is part of the
 * identity.
 */
export interface Inode {
  readonly device: string
  readonly inode: string
  readonly bornNs: string
}
