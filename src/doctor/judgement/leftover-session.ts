import { baseName, isShell, recognise } from './agent-program.ts'
import { type Leftover, quoted, type Sureness } from './leftover.ts'
import { maskedWords } from './masked-words.ts'
import type { ProcessFact, ProcessScene } from './process-fact.ts'

/** A tmux session is a leftover when nobody looks at it, an agent was in it, and nothing runs in it any more. */
export interface PaneFact {
  readonly isDead: boolean
  readonly pid: number
  /** What it was started with; empty for a plain shell. */
  readonly startCommand: string
}

export interface SessionFact {
  readonly socket: string
  /** Of the server, which names the session together with tmux's id. */
  readonly serverPid: number
  readonly id: string
  readonly name: string
  readonly isAttached: boolean
  /** Ebb's own. */
  readonly isMarked: boolean
  readonly createdAtMs: number
  readonly activeAtMs: number
  readonly panes: readonly PaneFact[]
}

const agentsName = /^(agent|claude|claude-code|codex|gemini|gemini-cli|opencode)([-_:/].+)?$/i

/** As programs give it: with a piece of an id, or a time in seconds, at the end. `agent_notes` and `claude-2026` are a person's. */
const generatedName = /[-_:/](\d{10,}|(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{4,})$/i

/** A name alone is little: whoever has begun, or was there a moment ago, comes back. */
const forsakenMs = 3_600_000

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
      'Nobody is attached to it.',
      started ? `It was started with an agent: ${maskedWords([started.startCommand])}.` : 'It is named like the session of an agent.',
      shells.length === 0
        ? 'What ran in it has ended.'
        : `Nothing runs in it but ${shells.length === 1 ? 'an idle shell' : `${shells.length} idle shells`}.`,
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

/** Of one that only its name speaks for. */
function doubtsOf({ name, activeAtMs }: SessionFact, nowMs: number): readonly string[] {
  return [
    ...(generatedName.test(name) ? [] : ['It has a name that a person may have given it.']),
    ...(nowMs - activeAtMs < forsakenMs ? ['Somebody made it, or was in it, less than an hour ago.'] : []),
  ]
}

function isIdleShell(shell: ProcessFact, children: ProcessScene['children']): boolean {
  return isShell(baseName(shell.argv[0] ?? shell.command)) && shell.argv.every((word) => word !== '-c') && !children.has(shell.pid)
}

/** The words of a shell's command line as far as they can be told apart by blanks: `claude; exec bash` begins with an agent, too. */
function startsAgent(command: string): boolean {
  const plain = command.replaceAll(/^["']|["']$/g, '').trim()
  return plain.split(/\s*(?:&&|\|\||[;|])\s*/).some((part) => {
    const words = part.split(/\s+/).map((word) => word.replaceAll(/^["'\\]+|["'\\]+$/g, ''))
    const first = words.findIndex((word) => !/^(\w+=.*|env|exec|nohup|time|command)$/.test(word))
    return first >= 0 && recognise(words.slice(first), undefined)?.kind === 'agent'
  })
}
