import type { Inode } from '../model/identity.ts'
import { label } from './handles.ts'
import { kindName } from './kind.ts'

/** Types that the plan of a workspace and the kind of its folders share. */

/** The label of a workspace's folders in a plan. Resources in the workspace depend on it. */
export const workspaceLabel = label('workspace')

export interface FolderSpec {
  /** The absolute path of the folder that contains the workspace. It existed before and does not belong to Ebb. */
  readonly base: string
  /** The path of the shared folder, relative to `base`. Other installations may use this folder, too. */
  readonly shared: string
  /** The path of the workspace's own folder, relative to `shared`. Its name is unique. */
  readonly own: string
  /** The paths of folders that other resources create when they need them, relative to `own`. */
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
