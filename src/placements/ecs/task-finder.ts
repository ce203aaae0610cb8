import type { AwsCall, AwsQueries, Cluster, TaskSeen } from './aws.ts'
import { startedBy } from './mark.ts'
import type { Family } from './specs.ts'

/** Finds tasks whose ARN is not in the ledger, by their tags and `startedBy`. */

/** Up to this many scopes are queried one by one. For more, all tasks of the cluster are listed. */
const mostScopes = 8

/** The family of a task definition that is written as `FAMILY`, `FAMILY:REVISION` or `arn:…:task-definition/FAMILY:REVISION`. */
function familyOf({ taskDefinition }: Family): { readonly family?: string } {
  const family = taskDefinition.replace(/^.*\//, '').replace(/:\d+$/, '')
  return family === '' ? {} : { family }
}

/**
 * Tasks of the given scopes, or of the whole cluster, that run or are meant to run. All families are searched: the setting may have named
 * another one at the launch, and an address may have gone to any task of the cluster.
 */
export async function findRunning(
  queries: AwsQueries,
  cluster: Cluster,
  scopeIds: ReadonlySet<string> | undefined,
  call: AwsCall,
): Promise<readonly TaskSeen[]> {
  const where = clusterOf(cluster)
  const arns =
    scopeIds && scopeIds.size <= mostScopes
      ? (await Promise.all([...scopeIds].map((id) => queries.listTasks({ ...where, startedBy: startedBy(id) }, call)))).flat()
      : await queries.listTasks({ ...where, desiredStatus: 'RUNNING' }, call)
  return (await queries.describeTasks(where, arns, call)).tasks
}

/** Tasks that are stopping, or have stopped within the last hour or so. */
export async function findStopping(queries: AwsQueries, family: Family, call: AwsCall): Promise<readonly TaskSeen[]> {
  const where = clusterOf(family)
  const arns = await queries.listTasks({ ...where, ...familyOf(family), desiredStatus: 'STOPPED' }, call)
  return (await queries.describeTasks(where, arns, call)).tasks
}

export function clusterOf({ cluster, region }: Cluster): Cluster {
  return { cluster, ...(region !== undefined && { region }) }
}
