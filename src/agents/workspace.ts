import { basename } from 'node:path'
import { type Task, workspaceFolder } from '../core/model/task.ts'
import { type FolderDetail, type FolderLive, type FolderSpec, workspaceLabel } from '../core/ports/folder.ts'
import type { Planned } from '../core/ports/kind.ts'

/** Subfolders of a workspace, each created when it is needed. */
const rooms = ['logs', 'progress', 'findings', 'archive']

/** Plans the workspace of a new task. */
export function planWorkspace({ base, id }: Pick<Task, 'base' | 'id'>, known: unknown): readonly Planned[] {
  const spec: FolderSpec = { base, shared: workspaceFolder, own: id, rooms, isNew: true }
  return [{ label: workspaceLabel, kind: 'folder', spec, live: { known } satisfies FolderLive }]
}

export interface Workspace {
  readonly base: string
  /** Relative to the base. */
  readonly path: string
  /** The mark of the shared folder in the base, when Ebb created that folder. */
  readonly known?: unknown
}

/** Adds the task's folders to an agent's plan: they are created again if missing, and removed with the task's last agent. */
export function planInside({ base, path, known }: Workspace, plan: readonly Planned[]): readonly Planned[] {
  const [first] = plan
  if (!first) return plan
  const spec: FolderSpec = { base, shared: workspaceFolder, own: basename(path), rooms }
  const live: FolderLive = { known }
  const folder: Planned = { label: workspaceLabel, kind: 'folder', spec, live, ...(first.onLoss && { onLoss: first.onLoss }) }
  return [folder, ...plan.map((planned) => ({ ...planned, dependsOn: [...(planned.dependsOn ?? []), workspaceLabel] }))]
}

/** The mark of the shared folder, as the launch recorded it in the ledger. */
export function markIn(resources: Iterable<{ readonly kind: string; readonly detail?: unknown }>): unknown {
  for (const { kind, detail } of resources) if (kind === 'folder') return (detail as FolderDetail | undefined)?.shared
  return undefined
}
