import type { AwsCall, AwsQueries, Cluster, TaskSeen } from './aws.ts'
import { startedBy } from './mark.ts'
import type { Family } from './specs.ts'

/** Tasks that nobody has written down, found by what they carry. */

/** So many scopes are asked for one by one; for more, all tasks of the cluster are looked at. */
const mostScopes = 8

/** `FAMILY`, `FAMILY:REVISION` or `arn:…:task-definition/FAMILY:REVISION`. */
function familyOf({ taskDefinition }: Family): { readonly family?: string } {
  const family = taskDefinition.replace(/^.*\//, '').replace(/:\d+$/, '')
  return family === '' ? {} : { family }
}

/**
 * What runs, or is to run, of these scopes; of all, where none are named. Of every family: the setting may have named another when a
 * task was run, and an address may have gone to any task of the cluster.
 */
export async function findRunning(
  looks: AwsQueries,
  cluster: Cluster,
  scopeIds: ReadonlySet<string> | undefined,
  call: AwsCall,
): Promise<readonly TaskSeen[]> {
  const where = clusterOf(cluster)
  const arns =
    scopeIds && scopeIds.size <= mostScopes
      ? (await Promise.all([...scopeIds].map((id) => looks.listTasks({ ...where, startedBy: startedBy(id) }, call)))).flat()
      : await looks.listTasks({ ...where, desiredStatus: 'RUNNING' }, call)
  return (await looks.describeTasks(where, arns, call)).tasks
}

/** What was told to stop, or has stopped by itself within the last hour or so. */
export async function findStopping(looks: AwsQueries, family: Family, call: AwsCall): Promise<readonly TaskSeen[]> {
  const where = clusterOf(family)
  const arns = await looks.listTasks({ ...where, ...familyOf(family), desiredStatus: 'STOPPED' }, call)
  return (await looks.describeTasks(where, arns, call)).tasks
}

export function clusterOf({ cluster, region }: Cluster): Cluster {
  return { cluster, ...(region !== undefined && { region }) }
}
