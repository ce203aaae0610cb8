import type { Inode } from '../model/identity.ts'
import { label } from './handles.ts'
import { kindName } from './kind.ts'

/** Types that the plan of a workspace and the kind of its folders share. */

/** The label of a workspace's folders in a plan. Resources in the workspace depend on it. */
export const workspaceLabel = label('workspace')

export interface FolderSpec {
  /** Absolute path of a folder that exists and is not ours. */
  readonly base: string
  /** Relative to `base`. Other installations may use this folder, too. */
  readonly shared: string
  /** Relative to `shared`, under a unique name. */
  readonly own: string
  /** Relative to `own`: folders that other resources create when they need them. */
  readonly rooms: readonly string[]
  /** True when the plan creates the workspace, which nothing uses yet. Its folder must not exist. */
  readonly isNew?: boolean
}

/** Additional input of the creation: the identity of a shared folder that this installation created earlier. */
export interface FolderLive {
  readonly known: Inode | undefined
}

/** The identity of the shared folder, where this installation created it. */
export interface FolderDetail {
  readonly shared?: Inode
}

export const folderKind = kindName<{ spec: FolderSpec; live: FolderLive; detail: FolderDetail }>('folder')
