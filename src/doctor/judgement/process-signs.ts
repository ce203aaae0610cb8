import type { ProcessDetail, StreamFact, Streams } from './process-fact.ts'

/** Signs that somebody may still want an orphan, and signs that nobody can. Each is a sentence, because each is shown. */
export interface Signs {
  /** Any of these, and it is left alone. */
  readonly inUse: readonly string[]
  /** Why nobody hears it any more. */
  readonly unheard: readonly string[]
}

export function signsOf(detail: ProcessDetail, isAgent: boolean): Signs {
  const { inner } = detail
  return {
    inUse: [
      ...new Set([detail, ...(inner?.streams ?? [])].flatMap(used)),
      ...(inner?.beside ?? []).slice(0, 1).map((name) => `Beside it runs ${name}, which may want what it says.`),
      ...served(detail, isAgent),
      ...(detail.isOnDisplay ? ['It is a program with a window, which somebody may look at.'] : []),
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
      return stream.isDeleted || stream.isAgents ? [] : [`${name} goes to the file ${stream.path}, so somebody may want it.`]
    case 'pipe':
    case 'named pipe':
    case 'socket':
      if (stream.others === 'none') return []
      return [
        stream.others === 'living'
          ? `${name} is a ${stream.is} that a living process has the other end of.`
          : `${name} is a ${stream.is}, and who has its other end could not be seen.`,
      ]
    case 'terminal':
      return stream.isDeleted ? [] : [`${name} is a terminal that is still open.`]
    case 'unknown':
      return [`${name} could not be looked at.`]
    case 'other':
      return [`${name} goes to something that tells us nothing.`]
    default:
      return []
  }
}

function fed(stdin: StreamFact): readonly string[] {
  if ((stdin.is === 'pipe' || stdin.is === 'named pipe' || stdin.is === 'socket') && stdin.others === 'living')
    return [`Its standard input is a ${stdin.is} that a living process can write to.`]
  if (stdin.is === 'named pipe') return ['Its standard input is a named pipe, which anybody who knows the name may open.']
  return stdin.is === 'unknown' ? ['Its standard input could not be looked at.'] : []
}

/** What listens, unless it is an agent, is a server that somebody asked for. */
function served({ listens, isConnectedTo }: ProcessDetail, isAgent: boolean): readonly string[] {
  if (listens === undefined) return ['Whether it listens on a socket could not be seen.']
  if (isConnectedTo) return ['It listens on a socket, and somebody is connected.']
  return listens && !isAgent ? ['It listens on a socket: it may be a server that somebody uses.'] : []
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
      return stream.isAgents ? [`${name} goes to a file that its agent kept for it.`] : []
    case 'pipe':
    case 'named pipe':
    case 'socket':
      return stream.others === 'none' ? [`${name} is a ${stream.is} that nobody reads any more.`] : []
    default:
      return []
  }
}
