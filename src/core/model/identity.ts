/**
 * Who made what: installations, incarnations and the cookie that marks every process of ours.
 * An incarnation's id alone tells whether its process still lives, so a lost ledger cannot make a
 * living supervisor's agents look like orphans.
 */

/** One life of one supervisor process. A pid alone is not an identity: pids are reused. */
export interface Incarnation {
  readonly bootId: string
  readonly pidNamespace: string
  readonly pid: number
  /** Start time in the kernel's own unit (clock ticks since boot on Linux); compared, never shown. */
  readonly startTime: string
}

export type Vitality = 'alive' | 'dead' | 'unknown'

/** Twelve hex digits of the boot id keep cgroup names short; 48 bits do not collide by accident. */
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

/** What a mark on a thing in the world says about its owner. */
export interface Mark {
  readonly installation: string
  readonly incarnation: string
  readonly resourceId: string
}

export const environmentTagName = 'EBB_SCOPE'

export function environmentTag(mark: Mark): string {
  return `${mark.installation}/${mark.incarnation}/${mark.resourceId}`
}

/** An Ebb inside an agent of another Ebb adds its mark to the outer one's, so that both find the process. */
export function chainTag(inherited: string | undefined, own: string): string {
  return inherited ? `${inherited}:${own}` : own
}

/**
 * On what runs in a container: this host sees it too, and it is its container's to end. No resource has an id with a plus
 * (`isSafeId`), so it is nobody's tree, and whoever ends what is on no books does not end what was only to be shown.
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

/** A resource is named after its scope, so that a scope's things can be found without the ledger. */
export function resourceId(scopeId: string, ordinal: number): string {
  return `${scopeId}.${ordinal}`
}

export function scopeOfResource(id: string): string {
  return id.slice(0, Math.max(0, id.lastIndexOf('.')))
}

/** The place in its scope's plan; later ones may depend on earlier ones. */
export function ordinalOfResource(id: string): number {
  return Number(id.slice(id.lastIndexOf('.') + 1)) || 0
}

/** Ids become directory names and cookie parts, so nothing else may ever be in them. */
export function isSafeId(id: string): boolean {
  return /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/.test(id) && !id.includes('..')
}
