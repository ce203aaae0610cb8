import { createHash } from 'node:crypto'
import { isSafeId, type Mark, scopeOfResource } from '../../core/model/identity.ts'
import type { Owner } from '../../core/ports/kind.ts'

/** The marks that identify the owner of a resource on AWS: tags, or the metadata of an object. The name alone never identifies it (G10). */

export const tagNames = {
  installation: 'ebb:installation',
  incarnation: 'ebb:incarnation',
  scope: 'ebb:scope',
  resource: 'ebb:resource',
} as const

/**
 * The names of the metadata of an object, sent as `x-amz-meta-…` headers. S3 converts the names to lower case, and they cannot contain a
 * colon.
 */
export const metadataNames = { installation: 'ebb-installation', incarnation: 'ebb-incarnation', resource: 'ebb-resource' } as const

export function tagsOf({ installation, incarnation, resourceId }: Mark): Readonly<Record<string, string>> {
  return {
    [tagNames.installation]: installation,
    [tagNames.incarnation]: incarnation,
    [tagNames.scope]: scopeOfResource(resourceId),
    [tagNames.resource]: resourceId,
  }
}

export function metadataOf({ installation, incarnation, resourceId }: Mark): Readonly<Record<string, string>> {
  return {
    [metadataNames.installation]: installation,
    [metadataNames.incarnation]: incarnation,
    [metadataNames.resource]: resourceId,
  }
}

export function isOwn(mark: Mark, carried: Readonly<Record<string, string>>): boolean {
  const names = carried[tagNames.resource] === undefined ? metadataNames : tagNames
  return carried[names.installation] === mark.installation && carried[names.resource] === mark.resourceId
}

/** True when the tags are those of a task of this scope. */
export function isOfScope(installation: string, scope: string, tags: Readonly<Record<string, string>>): boolean {
  return tags[tagNames.installation] === installation && tags[tagNames.scope] === scope
}

/** The mark that a resource carries, when the resource belongs to this owner. Otherwise undefined. */
export function ownedMark({ installation, incarnation, scopeIds }: Owner, carried: Readonly<Record<string, string>>): Mark | undefined {
  const names = carried[tagNames.resource] === undefined ? metadataNames : tagNames
  const mark = {
    installation: carried[names.installation] ?? '',
    incarnation: carried[names.incarnation] ?? '',
    resourceId: carried[names.resource] ?? '',
  }
  if (mark.installation !== installation || !isSafeId(mark.resourceId)) return undefined
  if (incarnation !== undefined && incarnation !== mark.incarnation) return undefined
  return scopeIds && !scopeIds.has(scopeOfResource(mark.resourceId)) ? undefined : mark
}

/**
 * The client token of an order, derived from its intent alone. It is a UUID, which every version of the API accepts (64 characters,
 * RunTask).
 */
export function tokenOf({ installation, incarnation, resourceId }: Mark): string {
  return uuidOf(`${installation}/${incarnation}/${resourceId}`)
}

/**
 * All tasks of a scope have the same `startedBy`, so that one call finds them. It consists of letters, digits, hyphens, slashes and
 * underscores, at most 128 for RunTask and 36 for StartTask. The UUID of an agent fits both.
 */
export function startedBy(scopeId: string): string {
  return /^[A-Za-z0-9/_-]{1,36}$/.test(scopeId) ? scopeId : uuidOf(scopeId)
}

function uuidOf(text: string): string {
  const hex = createHash('sha256').update(text).digest('hex')
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20, 32)].join('-')
}
