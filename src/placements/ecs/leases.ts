import { ordinalOfResource, resourceId, scopeOfResource } from '../../core/model/identity.ts'
import { type AwsCall, type AwsQueries, isAwsTrouble, type ObjectAt, type ObjectSeen } from './aws.ts'
import { metadataNames } from './mark.ts'
import type { BucketPlace } from './specs.ts'

/** Who has an address: an object in the bucket, made on the condition that there is none. S3 lets exactly one succeed. */

export const leaseTask = 'ebb-task'
export const leaseCluster = 'ebb-cluster'

export function leaseAt({ bucket, prefix, region }: BucketPlace, address: string): ObjectAt {
  return { bucket, key: `${prefix}/leases/${address}`, ...(region !== undefined && { region }) }
}

/** What a plan has right after a lease, in this order, so that whoever finds only the lease knows their ids. */
const followers = ['upload', 'lb-target']

export function afterLease(leaseId: string, kind: string): string {
  return resourceId(scopeOfResource(leaseId), ordinalOfResource(leaseId) + 1 + followers.indexOf(kind))
}

export interface Lease {
  readonly address: string
  readonly seen: ObjectSeen
}

/** HeadObject of so many at once. */
const atOnce = 8

/** Looks that are under way, by who looks: three kinds of one pass want the same leases at the same moment. */
const underWay = new WeakMap<AwsQueries, Map<string, Promise<readonly Lease[]>>>()

/**
 * Those of one installation. Who asks while another does has the same answer, and nobody has an old one. The calls have timeouts of
 * their own: they do not end with the first of those who wait.
 */
export function leasesOf(looks: AwsQueries, place: BucketPlace, installation: string, { clock }: AwsCall): Promise<readonly Lease[]> {
  const shared = underWay.get(looks) ?? new Map<string, Promise<readonly Lease[]>>()
  underWay.set(looks, shared)
  const name = JSON.stringify([place.bucket, place.prefix, place.region, installation])
  const known = shared.get(name)
  if (known) return known
  const asked = lookAtLeases(looks, place, installation, { signal: new AbortController().signal, clock })
  shared.set(name, asked)
  const forget = (): void => void shared.delete(name)
  asked.then(forget, forget)
  return asked
}

/** Whose they are only their metadata tell, and no listing does. */
async function lookAtLeases(looks: AwsQueries, place: BucketPlace, installation: string, call: AwsCall): Promise<readonly Lease[]> {
  const folder = leaseAt(place, '')
  const keys = await looks.listObjects(folder, call)
  const found: Lease[] = []
  for (let from = 0; from < keys.length; from += atOnce) {
    const some = keys.slice(from, from + atOnce)
    const seen = await Promise.all(some.map((key) => looks.head({ ...folder, key }, call)))
    for (const [index, one] of seen.entries()) {
      if (one?.metadata[metadataNames.installation] === installation)
        found.push({ address: (some[index] ?? '').slice(folder.key.length), seen: one })
    }
  }
  return found
}

export type HolderState = 'lives' | 'is-gone' | 'unknown'

/** Does the task that a lease was made for still run? ECS forgets a stopped task after an hour or more: then it is as dead as one. */
export async function holderOf(looks: AwsQueries, { metadata }: ObjectSeen, call: AwsCall): Promise<HolderState> {
  const arn = metadata[leaseTask]
  const cluster = metadata[leaseCluster]
  if (arn === undefined || cluster === undefined) return 'unknown'
  try {
    const { tasks, missing } = await looks.describeTasks({ cluster }, [arn], call)
    if (missing.includes(arn) || tasks[0]?.status === 'STOPPED') return 'is-gone'
    return tasks.length > 0 ? 'lives' : 'unknown'
  } catch (error) {
    // Another's cluster need not be ours to look into.
    if (isAwsTrouble(error, 'denied', 'refused')) return 'unknown'
    throw error
  }
}
