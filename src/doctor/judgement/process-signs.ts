import type { ProcessDetail, StreamFact, Streams } from './process-fact.ts'

/** Signs that an orphan is still in use, and signs that its output has no reader. Each is a sentence for the report. */
export interface Signs {
  /** Signs of use. With any of these, the process is left alone. */
  readonly inUse: readonly string[]
  /** Reasons why the output of the process has no reader. */
  readonly unheard: readonly string[]
}

export function signsOf(detail: ProcessDetail, isAgent: boolean): Signs {
  const { inner } = detail
  return {
    inUse: [
      ...new Set([detail, ...(inner?.streams ?? [])].flatMap(used)),
      ...(inner?.beside ?? []).slice(0, 1).map((name) => `The same wrapper also runs ${name}, which may read its output.`),
      ...served(detail, isAgent),
      ...(detail.isOnDisplay ? ['It has a window on a display, so it may be in use.'] : []),
      ...(detail.environ === undefined ? ['Its environment could not be read.'] : []),
      ...(detail.cgroups === undefined ? ['Its cgroup could not be read.'] : []),
      ...(detail.isInOurPidNamespace === undefined ? ['Its pid namespace could not be read.'] : []),
    ],
    unheard: lost('Its standard output', detail.stdout),
  }
}

function used({ stdin, stdout, stderr }: Streams): readonly string[] {
  return [...listened('Its standard output', stdout), ...listened('Its standard error', stderr), ...fed(stdin)]
}

function listened(name: string, stream: StreamFact): readonly string[] {
  switch (stream.is) {
    case 'file':
      return stream.isDeleted || stream.isAgents ? [] : [`${name} goes to the file ${stream.path}, so it may be wanted.`]
    case 'pipe':
    case 'named pipe':
    case 'socket':
      if (stream.others === 'none') return []
      return [
        stream.others === 'living'
          ? `${name} is a ${stream.is}, and a living process has its other end.`
          : `${name} is a ${stream.is}, and whether a process has its other end could not be determined.`,
      ]
    case 'terminal':
      return stream.isDeleted ? [] : [`${name} is a terminal that is still open.`]
    case 'unknown':
      return [`${name} could not be inspected.`]
    case 'other':
      return [`${name} goes to a file of an unknown type, so it may be in use.`]
    default:
      return []
  }
}

function fed(stdin: StreamFact): readonly string[] {
  if ((stdin.is === 'pipe' || stdin.is === 'named pipe' || stdin.is === 'socket') && stdin.others === 'living')
    return [`Its standard input is a ${stdin.is} that a living process can write to.`]
  if (stdin.is === 'named pipe') return ['Its standard input is a named pipe, which any process can open by its name.']
  return stdin.is === 'unknown' ? ['Its standard input could not be inspected.'] : []
}

/**
 * Signs that a process is a server in use. A listening socket is one, except for an agent, which also listens for its own purposes: an
 * agent needs a connected client.
 */
function served({ listens, isConnectedTo }: ProcessDetail, isAgent: boolean): readonly string[] {
  if (listens === undefined) return ['Whether it listens on a socket could not be determined.']
  if (isConnectedTo) return ['It listens on a socket, and a client is connected.']
  return listens && !isAgent ? ['It listens on a socket, so it may be a server in use.'] : []
}

function lost(name: string, stream: StreamFact): readonly string[] {
  switch (stream.is) {
    case 'null':
      return [`${name} goes nowhere (/dev/null).`]
    case 'closed':
      return [`${name} is closed.`]
    case 'terminal':
      return stream.isDeleted ? [`${name} is a terminal that was closed.`] : []
    case 'file':
      if (stream.isDeleted) return [`${name} goes to a file that was deleted.`]
      return stream.isAgents ? [`${name} goes to a file in which its agent collected it.`] : []
    case 'pipe':
    case 'named pipe':
    case 'socket':
      return stream.others === 'none' ? [`${name} is a ${stream.is} without a reader.`] : []
    default:
      return []
  }
}
