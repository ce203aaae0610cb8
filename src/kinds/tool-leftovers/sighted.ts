import type { Stats } from 'node:fs'

/** A file as it was when it was read. */
export interface Sighted {
  readonly path: string
  readonly version: string
}

export interface Trace extends Sighted {
  /** What goes with it, and before it: without it nobody would know whose these are. */
  readonly kin: readonly Sighted[]
}

/** Another file, or another content, is another version. */
export function versionOf({ dev, ino, size, mtimeMs }: Pick<Stats, 'dev' | 'ino' | 'size' | 'mtimeMs'>): string {
  return `${dev} ${ino} ${size} ${mtimeMs}`
}
