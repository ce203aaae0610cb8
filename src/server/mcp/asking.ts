import type { Caller, OfTask } from '../../tasks/types.ts'

/** Who is at the other end of the connection. */
export interface Asking {
  readonly caller: Caller
  /** Without one: that of whatever is named, and the default one for what is new. An agent has that of its task. */
  readonly namespace?: string
  /** The folder its program works in, as far as it is known. */
  readonly cwd?: string
}

/** Whoever names a namespace sees the tasks of no other. */
export function whoAsks({ caller, namespace }: Asking): Pick<OfTask, 'caller' | 'namespace'> {
  return { caller, ...(namespace !== undefined && { namespace }) }
}
