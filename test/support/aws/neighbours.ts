import { randomUUID } from 'node:crypto'
import type { AwsWorld } from './world.ts'

/**
 * Foreign tasks, targets, leases and uploads in the same cluster, target group and bucket. Some look very much like Ebb's. Ebb must never
 * touch any of them (G10).
 */

export interface Neighbours {
  /** ARNs, addresses and keys by which `AwsWorld.left()` recognises the foreign resources. */
  readonly names: ReadonlySet<string>
  /** Foreign resources that were changed or removed. */
  touched(): Promise<readonly string[]>
}

export async function amongForeignThings(
  world: AwsWorld,
  lookalikeOf?: { readonly installation: string; readonly scope: string },
): Promise<Neighbours> {
  const scope = lookalikeOf?.scope ?? randomUUID()
  const theirs = { 'ebb:installation': 'another-one', 'ebb:incarnation': '1-2-3-4', 'ebb:scope': scope, 'ebb:resource': `${scope}.3` }
  const tasks = [
    await world.runDecoy({}),
    await world.runDecoy({ project: 'something else' }, 'ecs-svc/123'),
    await world.runDecoy(theirs, scope),
    // A foreign task that was started under the id of Ebb's agent, but without Ebb's tags.
    await world.runDecoy({}, scope),
    await world.runDecoy({ 'ebb:resource': `${scope}.3` }, scope.slice(0, 8)),
  ]
  const lent = tasks[2]?.address ?? ''
  world.targets.register(world.group, lent, world.port)
  world.targets.register(world.group, '127.0.9.9', world.port)
  const metadata = {
    'ebb-installation': 'another-one',
    'ebb-incarnation': '1-2-3-4',
    'ebb-resource': `${scope}.4`,
    'ebb-task': tasks[2]?.arn ?? '',
    'ebb-cluster': 'agents',
  }
  await world.put(`ebb/leases/${lent}`, '{}', metadata)
  await world.put('ebb/leases/127.0.9.9', 'no lease at all')
  const other = randomUUID()
  await world.put(`ebb/results/${other}/stdout.log`, 'what another agent wrote')
  await world.beginUpload(`ebb/results/${other}/stderr.log`)
  await world.beginUpload(`somewhere/${scope}/stdout.log`)
  // Foreign uploads in the folder of an agent's results, beside its logs.
  await world.beginUpload(`ebb/results/${scope}/report.pdf`)
  await world.beginUpload(`ebb/results/${scope}/parts/stdout.log`)
  const objects = [`ebb/leases/${lent}`, 'ebb/leases/127.0.9.9', `ebb/results/${other}/stdout.log`]
  const beside = [`ebb/results/${scope}/report.pdf`, `ebb/results/${scope}/parts/stdout.log`]
  const parts = [`ebb/results/${other}/stderr.log`, `somewhere/${scope}/stdout.log`, ...beside]
  return {
    names: new Set([...tasks.map(({ arn }) => arn), lent, '127.0.9.9', ...parts]),
    touched: async () => {
      const there = new Set((await world.objects()).map(({ key }) => key))
      const open = new Set(await world.openUploads())
      return [
        ...tasks.filter(({ status, desired }) => status !== 'RUNNING' || desired !== 'RUNNING').map(({ arn }) => `task ${arn}`),
        ...[lent, '127.0.9.9']
          .filter((address) => ![...world.targets.all.values()].some((target) => target.address === address && target.state === 'healthy'))
          .map((address) => `target ${address}`),
        ...objects.filter((key) => !there.has(key)).map((key) => `object ${key}`),
        ...parts.filter((key) => !open.has(key)).map((key) => `parts ${key}`),
      ]
    },
  }
}
