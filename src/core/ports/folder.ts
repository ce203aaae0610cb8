/** What those who plan a workspace and the kind of its folders have to agree on. */

/** What the folders of a workspace are called in a plan; whatever lies in them depends on it. */
export const workspaceLabel = 'workspace'

export interface FolderSpec {
  /** Absolute; it is there, and not ours. */
  readonly base: string
  /** In the base; others may share it with us. */
  readonly shared: string
  /** In the shared one, under a name that nobody else gives. */
  readonly own: string
  /** What others of our resources may make in it. */
  readonly rooms: readonly string[]
  /** The workspace begins here, and nobody is in it yet: it must not be there. */
  readonly isNew?: boolean
}

/** What a creation may know besides: the mark of a shared folder that one of us made earlier. */
export interface FolderLive {
  readonly known: unknown
}

/** What the world told: the mark of the shared folder, where it is ours. */
export interface FolderDetail {
  readonly shared?: unknown
}
