import { basename } from 'node:path'
import type { Inode } from '../core/model/identity.ts'
import type { Intent } from '../core/model/resource.ts'
import { type Task, workspaceFolder } from '../core/model/task.ts'
import { folderKind, workspaceLabel } from '../core/ports/folder.ts'
import { isOfKind, type Planned, planned } from '../core/ports/kind.ts'

/** Subfolders of a workspace, each created when it is needed. */
const rooms = ['logs', 'progress', 'findings', 'archive']

/** Plans the workspace of a new task. */
export function planWorkspace({ base, id }: Pick<Task, 'base' | 'id'>, known: Inode | undefined): readonly Planned[] {
  const spec = { base, shared: workspaceFolder, own: id, rooms, isNew: true }
  return [planned({ label: workspaceLabel, kind: folderKind, spec, live: { known } })]
}

export interface Workspace {
  readonly base: string
  /** The path of the workspace, relative to the base. */
  readonly path: string
  /** The mark of the shared folder in the base, when Ebb created that folder. */
  readonly known?: Inode | undefined
}

/** Adds the task's folders to an agent's plan: they are created again if missing, and removed with the task's last agent. */
export function planInside({ base, path, known }: Workspace, plan: readonly Planned[]): readonly Planned[] {
  const [first] = plan
  if (!first) return plan
  const spec = { base, shared: workspaceFolder, own: basename(path), rooms }
  const { onLoss } = first
  const folder = planned({ label: workspaceLabel, kind: folderKind, spec, live: { known }, ...(onLoss && { onLoss }) })
  return [folder, ...plan.map((resource) => ({ ...resource, dependsOn: [...(resource.dependsOn ?? []), workspaceLabel] }))]
}

/** The mark of the shared folder, as the launch recorded it in the ledger. */
export function markIn(resources: readonly Intent[]): Inode | undefined {
  return resources.find((resource) => isOfKind(folderKind, resource))?.detail?.shared
}
