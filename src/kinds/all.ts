import type { LabelledKind } from '../core/ports/kind.ts'
import { FolderKind } from './file/folder.ts'
import { DirectoryKind, FileKind } from './file/kind.ts'
import { type LogDeps, LogKind } from './log/kind.ts'
import { type ProcessTreeDeps, ProcessTreeKind } from './process-tree/kind.ts'
import { type TempFolderDeps, TempFolderKind } from './temp-folder/kind.ts'
import { ToolLeftoversKind } from './tool-leftovers/kind.ts'

type KindParts = ProcessTreeDeps &
  Omit<LogDeps, 'directory'> &
  Omit<TempFolderDeps, 'directory'> & {
    readonly logDirectory: string
    readonly runDirectory: string
  }

/** The kinds that no placement owns, for plans of every placement. A new one is a folder with a kind, and a line in `all`. */
export function openKinds({ logDirectory, runDirectory, ...parts }: KindParts) {
  const tree = new ProcessTreeKind(parts)
  const folders = new FolderKind(parts.effects)
  const all = [
    tree,
    new LogKind({ ...parts, directory: logDirectory }),
    new FileKind(parts.effects),
    new DirectoryKind(parts.effects),
    folders,
    new TempFolderKind({ ...parts, directory: runDirectory }),
    new ToolLeftoversKind(parts.effects),
  ] as readonly LabelledKind[]
  return { tree, folders, all }
}
