import { lstatSync } from 'node:fs'
import { join } from 'node:path'
import type { Clock } from '../../core/ports/clock.ts'
import type { Effects } from '../../core/ports/effects.ts'
import type { Leftover, LeftoverEnd } from '../judgement/leftover.ts'
import { judgeSession, type PaneFact, type SessionFact } from '../judgement/leftover-session.ts'
import { childrenIn, type ProcessFact } from '../judgement/process-fact.ts'
import { namesIn, tryRead } from './proc-facts.ts'
import { answerMs, ask } from './program.ts'

/** Where the user's tmux servers are. They are queried with the tmux client. No server is started, and other users' servers are ignored. */
export interface SessionPlace {
  /** The folder of the sockets: `/tmp/tmux-UID`. */
  readonly directory: string
  readonly environment: Readonly<Record<string, string>>
}

/**
 * The format of one pane in the output of tmux. Fields are separated by a tab, which tmux removes from names. The command comes last,
 * because it may contain tabs.
 */
const format = [
  'pid',
  'session_id',
  'session_attached',
  'session_created',
  'session_activity',
  '@ebb',
  'pane_dead',
  'pane_pid',
  'session_name',
  'pane_start_command',
]
  .map((name) => `#{${name}}`)
  .join('\t')

const maxSockets = 50

export async function findSessions(place: SessionPlace, table: ReadonlyMap<number, ProcessFact>): Promise<Found> {
  const answers = await Promise.all(socketsIn(place.directory).map((socket) => sessionsAt(socket, place)))
  const scene = { table, children: childrenIn(table.values()), nowMs: Date.now() }
  return {
    leftovers: answers.flatMap(({ sessions }) => sessions.flatMap((session) => judgeSession(session, scene) ?? [])),
    unseen: answers.flatMap(({ problem }) => problem ?? []),
  }
}

interface Found {
  readonly leftovers: readonly Leftover[]
  readonly unseen: readonly string[]
}

function socketsIn(directory: string): readonly string[] {
  const own = process.getuid?.()
  const folder = tryRead(() => lstatSync(directory))
  if (!folder?.isDirectory() || folder.uid !== own) return []
  return (namesIn(directory) ?? [])
    .map((name) => join(directory, name))
    .filter((path) => {
      const stat = tryRead(() => lstatSync(path))
      return stat?.isSocket() && stat.uid === own
    })
    .slice(0, maxSockets)
}

async function sessionsAt(socket: string, { environment }: SessionPlace): Promise<{ sessions: readonly SessionFact[]; problem?: string }> {
  const answer = await tmux(socket, environment, 'list-panes', '-a', '-F', format)
  // A tmux server that was killed leaves its socket behind.
  if ('problem' in answer) {
    if (/no server|error connecting|no such file|ENOENT/i.test(answer.problem)) return { sessions: [] }
    return { sessions: [], problem: `The tmux server at ${socket} does not answer: ${answer.problem}` }
  }
  const rows = answer.text.split('\n').flatMap((line) => rowOf(socket, line) ?? [])
  const sessions = Map.groupBy(rows, ({ session }) => session.id)
  return {
    sessions: [...sessions.values()].flatMap((own) => (own[0] ? [{ ...own[0].session, panes: own.map(({ pane }) => pane) }] : [])),
  }
}

function rowOf(socket: string, line: string): { readonly session: Omit<SessionFact, 'panes'>; readonly pane: PaneFact } | undefined {
  const [server = '', id = '', attached, created, active, mark, dead, pid, name = '', ...command] = line.split('\t')
  if (!/^\d+$/.test(server) || !/^\$\d+$/.test(id)) return undefined
  const session = {
    socket,
    serverPid: Number(server),
    id,
    name,
    isAttached: attached !== '0',
    isMarked: mark !== '',
    createdAtMs: Number(created) * 1_000,
    activeAtMs: Number(active) * 1_000,
  }
  return { session, pane: { isDead: dead === '1', pid: Number(pid), startCommand: command.join(' ') } }
}

function tmux(socket: string, environment: Readonly<Record<string, string>>, ...words: readonly string[]) {
  return ask('tmux', argumentsOf(socket, words), environmentOf(environment))
}

function argumentsOf(socket: string, words: readonly string[]): readonly string[] {
  return ['-u', '-S', socket, '-f', '/dev/null', ...words]
}

function environmentOf({ PATH = '/usr/bin:/bin' }: Readonly<Record<string, string>>): Record<string, string> {
  return { PATH, LC_ALL: 'C.UTF-8' }
}

interface SessionEnding {
  readonly clock: Clock
  readonly effects: Pick<Effects, 'spawn' | 'signal'>
}

/** Runs a tmux client that changes something. It is killed when its server does not answer in time. */
async function change(socket: string, { environment }: SessionPlace, { clock, effects }: SessionEnding, ...words: readonly string[]) {
  const argv = ['tmux', ...argumentsOf(socket, words)]
  const stdio = ['ignore', 'ignore', 'ignore'] as const
  const child = await effects.spawn({ program: 'tmux', argv, env: environmentOf(environment), cwd: '/', stdio })
  const ended = new AbortController()
  // The pid is not reused before the exit of the child has been seen.
  clock.after(answerMs, ended.signal, () => effects.signal(child.pid, 'SIGKILL'))
  await child.exit
  ended.abort()
}

/** Kills a session by its id, which a tmux server never reuses, and only while the same server runs at the socket. */
export async function endSession(
  leftover: Leftover,
  place: SessionPlace,
  ending: SessionEnding,
): Promise<Pick<LeftoverEnd, 'outcome' | 'steps' | 'says'>> {
  const [, socket = '', server = '', id = ''] = /^tmux:(.*):(\d+):(\$\d+):\d+$/.exec(leftover.id) ?? []
  const began = performance.now()
  // tmux checks and kills in one command, so that no client can attach in between.
  const unattached = `#{&&:#{==:#{pid},${server}},#{==:#{session_attached},0}}`
  await change(socket, place, ending, 'if-shell', '-F', '-t', `${id}:`, unattached, `kill-session -t '${id}'`)
  const steps = [{ step: 'kill-session', took: Math.round(performance.now() - began) }] as const
  const { sessions, problem } = await sessionsAt(socket, place)
  if (problem !== undefined) return { outcome: 'left', steps, says: problem }
  const isThere = sessions.some((session) => session.id === id && String(session.serverPid) === server)
  if (isThere) return { outcome: 'left', steps, says: 'tmux still lists it; a client may have attached to it.' }
  return { outcome: 'gone', steps, says: 'tmux no longer lists it.' }
}
