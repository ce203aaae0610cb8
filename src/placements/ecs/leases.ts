import { ordinalOfResource, resourceId, scopeOfResource } from '../../core/model/identity.ts'
import { type AwsCall, type AwsQueries, isAwsTrouble, type ObjectAt, type ObjectSeen } from './aws.ts'
import { metadataNames } from './mark.ts'
import type { BucketPlace } from './specs.ts'

/** Leases of addresses: objects in the bucket, each created on the condition that there is none. S3 lets exactly one writer succeed. */

export const leaseTask = 'ebb-task'
export const leaseCluster = 'ebb-cluster'

export function leaseAt({ bucket, prefix, region }: BucketPlace, address: string): ObjectAt {
  return { bucket, key: `${prefix}/leases/${address}`, ...(region !== undefined && { region }) }
}

/** The resources that follow a lease in a plan, in this order. Their ids can be derived from the id of the lease. */
const followers = ['upload', 'lb-target']

export function afterLease(leaseId: string, kind: string): string {
  return resourceId(scopeOfResource(leaseId), ordinalOfResource(leaseId) + 1 + followers.indexOf(kind))
}

export interface Lease {
  readonly address: string
  readonly seen: ObjectSeen
}

/** The number of concurrent calls of HeadObject. */
const atOnce = 8

/**
 * The listings that are in progress, by the queries object that runs them. In one reaper pass three kinds list the same leases at the same
 * moment.
 */
const running = new WeakMap<AwsQueries, Map<string, Promise<readonly Lease[]>>>()

/**
 * The leases of one installation. Concurrent callers share one listing, and nothing is cached after that listing. The calls of the listing
 * have their own timeouts and do not end with the signal of the first caller.
 */
export function leasesOf(queries: AwsQueries, place: BucketPlace, installation: string, { clock }: AwsCall): Promise<readonly Lease[]> {
  const shared = running.get(queries) ?? new Map<string, Promise<readonly Lease[]>>()
  running.set(queries, shared)
  const name = JSON.stringify([place.bucket, place.prefix, place.region, installation])
  const known = shared.get(name)
  if (known) return known
  const listing = listLeases(queries, place, installation, { signal: new AbortController().signal, clock })
  shared.set(name, listing)
  const forget = (): void => void shared.delete(name)
  listing.then(forget, forget)
  return listing
}

/** Reads each lease on its own: only the metadata of a lease names its owner, and the list of keys has no metadata. */
async function listLeases(queries: AwsQueries, place: BucketPlace, installation: string, call: AwsCall): Promise<readonly Lease[]> {
  const folder = leaseAt(place, '')
  const keys = await queries.listObjects(folder, call)
  const found: Lease[] = []
  for (let from = 0; from < keys.length; from += atOnce) {
    const some = keys.slice(from, from + atOnce)
    const seen = await Promise.all(some.map((key) => queries.head({ ...folder, key }, call)))
    for (const [index, one] of seen.entries()) {
      if (one?.metadata[metadataNames.installation] === installation)
        found.push({ address: (some[index] ?? '').slice(folder.key.length), seen: one })
    }
  }
  return found
}

export type HolderState = 'lives' | 'is-gone' | 'unknown'

/** Whether the task of a lease still runs. ECS forgets a stopped task after about an hour, so a task that it does not know is gone. */
export async function holderOf(queries: AwsQueries, { metadata }: ObjectSeen, call: AwsCall): Promise<HolderState> {
  const arn = metadata[leaseTask]
  const cluster = metadata[leaseCluster]
  if (arn === undefined || cluster === undefined) return 'unknown'
  try {
    const { tasks, missing } = await queries.describeTasks({ cluster }, [arn], call)
    if (missing.includes(arn) || tasks[0]?.status === 'STOPPED') return 'is-gone'
    return tasks.length > 0 ? 'lives' : 'unknown'
  } catch (error) {
    // The permissions of this host may not allow it to describe the tasks of another cluster.
    if (isAwsTrouble(error, 'denied', 'refused')) return 'unknown'
    throw error
  }
}
