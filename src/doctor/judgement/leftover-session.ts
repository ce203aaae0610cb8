import { baseName, isShell, recognise } from './agent-program.ts'
import { type Leftover, quoted, type Sureness } from './leftover.ts'
import { maskedWords } from './masked-words.ts'
import type { ProcessFact, ProcessScene } from './process-fact.ts'

/** One pane of a tmux session. A session is a leftover when no client is attached, an agent was in it, and nothing runs in it any more. */
export interface PaneFact {
  readonly isDead: boolean
  readonly pid: number
  /** The command that the pane was started with; empty for the default shell. */
  readonly startCommand: string
}

export interface SessionFact {
  readonly socket: string
  /** The pid of the tmux server. With `id` it identifies the session. */
  readonly serverPid: number
  readonly id: string
  readonly name: string
  readonly isAttached: boolean
  /** True when the session carries Ebb's mark, and so belongs to an Ebb. */
  readonly isMarked: boolean
  readonly createdAtMs: number
  readonly activeAtMs: number
  readonly panes: readonly PaneFact[]
}

const agentsName = /^(agent|claude|claude-code|codex|gemini|gemini-cli|opencode)([-_:/].+)?$/i

/**
 * Matches a name that a program generated: it ends with part of an id or a time in seconds. A person may have chosen `agent_notes` or
 * `claude-2026`.
 */
const generatedName = /[-_:/](\d{10,}|(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{4,})$/i

/** A session that is known by its name alone must be unused for this long: a person may be about to return to it. */
const unusedMs = 3_600_000

export function judgeSession(
  session: SessionFact,
  { table, children, nowMs }: Pick<ProcessScene, 'table' | 'children' | 'nowMs'>,
): Leftover | undefined {
  const { name, panes, socket, id } = session
  if (session.isAttached || session.isMarked || panes.length === 0) return undefined
  const started = panes.find(({ startCommand }) => startsAgent(startCommand))
  if (!started && !agentsName.test(name)) return undefined
  const shells = panes.flatMap((pane) => (pane.isDead ? [] : (table.get(pane.pid) ?? 'gone')))
  if (shells.some((shell) => shell === 'gone' || !isIdleShell(shell, children))) return undefined
  const doubts = started ? [] : doubtsOf(session, nowMs)
  const sure: Sureness = doubts.length > 0 ? 'perhaps' : started && shells.length === 0 ? 'sure' : 'likely'
  const fixes = sure !== 'perhaps'
  return {
    id: `tmux:${socket}:${session.serverPid}:${id}:${session.createdAtMs}`,
    kind: 'tmux-session',
    what: `tmux session ${maskedWords([name])} (${id} on ${socket})`,
    evidence: [
      'No client is attached to it.',
      started ? `It was started with an agent: ${maskedWords([started.startCommand])}.` : 'It has the name of an agent session.',
      shells.length === 0
        ? 'Every program in it has ended.'
        : `Only ${shells.length === 1 ? 'an idle shell runs' : `${shells.length} idle shells run`} in it.`,
      ...doubts,
    ],
    sure,
    since: new Date(session.activeAtMs).toISOString(),
    ageMs: Math.max(0, nowMs - session.activeAtMs),
    memoryBytes: shells.reduce((sum, shell) => sum + (shell === 'gone' ? 0 : shell.memoryBytes), 0),
    sizeBytes: 0,
    processes: shells.flatMap((shell) => (shell === 'gone' ? [] : [{ pid: shell.pid, startTime: shell.startTime }])),
    paths: [],
    fixes,
    fix: fixes
      ? '--fix kills the session.'
      : `Left alone, because it may be in use. When you are sure that it is not: tmux -S ${quoted(socket)} kill-session -t ${quoted(id)}`,
  }
}

/** Reasons why a session that is known by its name alone may be in use. */
function doubtsOf({ name, activeAtMs }: SessionFact, nowMs: number): readonly string[] {
  return [
    ...(generatedName.test(name) ? [] : ['A person may have chosen its name.']),
    ...(nowMs - activeAtMs < unusedMs ? ['It was created or used less than an hour ago.'] : []),
  ]
}

function isIdleShell(shell: ProcessFact, children: ProcessScene['children']): boolean {
  return isShell(baseName(shell.argv[0] ?? shell.command)) && shell.argv.every((word) => word !== '-c') && !children.has(shell.pid)
}

/** Splits a shell command line at blanks and separators, without parsing quotes: `claude; exec bash` starts an agent, too. */
function startsAgent(command: string): boolean {
  const plain = command.replaceAll(/^["']|["']$/g, '').trim()
  return plain.split(/\s*(?:&&|\|\||[;|])\s*/).some((part) => {
    const words = part.split(/\s+/).map((word) => word.replaceAll(/^["'\\]+|["'\\]+$/g, ''))
    const first = words.findIndex((word) => !/^(\w+=.*|env|exec|nohup|time|command)$/.test(word))
    return first >= 0 && recognise(words.slice(first), undefined)?.kind === 'agent'
  })
}
