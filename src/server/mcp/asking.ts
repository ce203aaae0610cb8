import type { Caller, OfTask } from '../../tasks/types.ts'

/** The client of an MCP connection. */
export interface Asking {
  readonly caller: Caller
  /**
   * The namespace of the client, which hides the tasks of other namespaces. Without one, no task is hidden, and new tasks get the
   * default namespace. Absent for an agent.
   */
  readonly namespace?: string
  /** The working folder of the client's program, if known. */
  readonly cwd?: string
}

/** The fields of every call of the tasks service. A client with a namespace sees only the tasks in it. */
export function callerFields({ caller, namespace }: Asking): Pick<OfTask, 'caller' | 'namespace'> {
  return { caller, ...(namespace !== undefined && { namespace }) }
}
