import { type AgentMark, agentMark, sourcesSnapshot } from './agent-mark.ts'
import { type Recognised, recognise, serverByFolder } from './agent-program.ts'
import type { Leftover, Sureness } from './leftover.ts'
import { type Loss, lostParent } from './lost-parent.ts'
import { maskedWords } from './masked-words.ts'
import { familyOf, type ProcessDetail, type ProcessFact, type ProcessScene, type StreamFact } from './process-fact.ts'
import { signsOf } from './process-signs.ts'
import { workBelow } from './wrapper.ts'

/**
 * Decides whether one process is a leftover. A leftover has lost its parent, and is an agent, an MCP server or a program that an
 * agent's tool started. It is `perhaps` when it may be in use. A process with a known owner (a service, an Ebb, a living agent) is
 * not a leftover.
 */
export function judgeProcess(fact: ProcessFact, detail: ProcessDetail, scene: ProcessScene): Leftover | undefined {
  const loss = lostParent(fact, scene.table)
  const origin = originOf(fact, detail)
  if (!loss || !origin || isInnocent(fact, detail, origin, scene)) return undefined
  const family = familyOf(fact, scene.children)
  const signs = signsOf(detail, origin.kind === 'agent')
  const doubts = [...doubtsOf(fact, detail, origin, family, scene), ...signs.inUse]
  const sure: Sureness = doubts.length > 0 ? 'perhaps' : isSure(loss, origin, detail, scene) ? 'sure' : 'likely'
  const fixes = sure !== 'perhaps'
  return {
    id: `process:${fact.pid}:${fact.startTime}`,
    kind: origin.kind,
    what: `${origin.name} (pid ${fact.pid}): ${maskedWords(fact.argv) || fact.command}`,
    evidence: [origin.says, loss.says, ...signs.unheard, ...below(family), ...doubts],
    sure,
    since: new Date(fact.startedAtMs).toISOString(),
    ageMs: Math.max(0, Math.round(scene.nowMs - fact.startedAtMs)),
    memoryBytes: family.reduce((sum, { memoryBytes }) => sum + memoryBytes, 0),
    sizeBytes: 0,
    processes: family.map(({ pid, startTime }) => ({ pid, startTime })),
    paths: [],
    fixes,
    fix: fixes
      ? `--fix sends SIGTERM to ${family.length === 1 ? 'it' : `it and the ${family.length - 1} below it`}, and SIGKILL after a grace period.`
      : `Left alone, because it may be in use. When you are sure that it is not: kill ${fact.pid}`,
  }
}

/** True for an orphan without a terminal that is not an ancestor of the doctor. Only suspects are read in detail. */
export function isSuspect(fact: ProcessFact, scene: Pick<ProcessScene, 'table' | 'family'>): boolean {
  return fact.tty === 0 && fact.argv.length > 0 && !scene.family.has(fact.pid) && lostParent(fact, scene.table) !== undefined
}

/** The kind of a suspect, without its descriptors: only the descriptors of a recognised process are read. */
export function kindOf(fact: ProcessFact, detail: Pick<ProcessDetail, 'exe' | 'environ' | 'cwd'>): Origin['kind'] | undefined {
  return originOf(fact, { ...detail, inner: undefined })?.kind
}

interface Origin {
  readonly kind: 'agent' | 'mcp-server' | 'tool'
  readonly name: string
  readonly says: string
  readonly isCertain: boolean
  readonly isByFolder?: boolean
  readonly mark: AgentMark | undefined
  /** The agent program whose tool the process is, if it is a tool. */
  readonly program: string | undefined
}

type OriginDetail = Pick<ProcessDetail, 'exe' | 'environ' | 'cwd' | 'inner'>

function originOf(fact: ProcessFact, { exe, environ, cwd, inner }: OriginDetail): Origin | undefined {
  const { argv, command } = fact
  const mark = agentMark(environ ?? [])
  const snapshot = sourcesSnapshot(argv)
  const program = mark?.program ?? snapshot
  const known = recognise(argv, exe) ?? inner?.known
  if (known) return { ...known, says: saysOf(known, mark), isCertain: known.isCertain || mark !== undefined, mark, program }
  if (program === undefined) {
    const server = serverByFolder(argv, exe, cwd)
    return server && { ...server, says: `It looks like the MCP server in the folder ${server.name}.`, mark, program }
  }
  const says = mark ? `A tool of ${program} started it: it has ${mark.by} in its environment.` : `It is the shell of a tool of ${program}.`
  return { kind: 'tool', name: command, says, isCertain: true, mark, program }
}

function saysOf({ kind, name }: Recognised, mark: AgentMark | undefined): string {
  const is = kind === 'agent' ? `It runs the agent ${name}` : `It runs the MCP server ${name}`
  return mark ? `${is}, and ${mark.program} started it (${mark.by}).` : `${is}.`
}

/**
 * Matches terminal servers, and daemons that all programs of a user share. They are not leftovers, whichever program started them first.
 */
const shared =
  /^(tmux.*|screen|SCREEN|dtach|abduco|zellij|mosh-server|sshd.*|gpg-agent|ssh-agent|dirmngr|scdaemon|keyboxd|dbus-.*|systemd|watchman.*|adb|dockerd|containerd.*|emacs.*|Xorg|Xvfb|pulseaudio|pipewire.*)$/

function isInnocent(fact: ProcessFact, detail: ProcessDetail, { kind, mark, isByFolder }: Origin, scene: ProcessScene): boolean {
  const isServed = 'others' in detail.stdin && detail.stdin.others === 'living'
  return (
    fact.tty !== 0 ||
    scene.family.has(fact.pid) ||
    detail.isInOurPidNamespace === false ||
    isEbbs(fact.argv, detail.environ ?? [], detail.cgroups ?? '') ||
    isManaged(detail.cgroups ?? '') ||
    (kind === 'tool' && shared.test(fact.command)) ||
    (kind === 'mcp-server' && isServed) ||
    (isByFolder === true && !(isCutOff(detail.stdin) && isCutOff(detail.stdout))) ||
    ownerLives(fact, mark, scene)
  )
}

const isCutOff = (stream: StreamFact): boolean => 'others' in stream && stream.others === 'none'

/**
 * True when the agent whose pid is in the mark still runs. An agent with that pid that is younger than the process is another one: the pid
 * was reused.
 */
function ownerLives(fact: ProcessFact, mark: AgentMark | undefined, { agents }: ProcessScene): boolean {
  if (mark?.ownerPid === undefined) return false
  return agents.some((agent) => agent.pid === mark.ownerPid && agent.program === mark.program && isOlder(agent.startTime, fact.startTime))
}

function isOlder(earlier: string, later: string): boolean {
  return Number(earlier) <= Number(later)
}

/**
 * True for a process that an Ebb marked, one in an Ebb's cgroup, and Ebb itself. Other EBB_ variables do not count: a user may export
 * them in every shell.
 */
export function isEbbs(argv: readonly string[], environ: readonly string[], cgroups: string): boolean {
  return (
    environ.some((entry) => entry.startsWith('EBB_SCOPE=')) ||
    /\/ebb-[0-9a-f]{6,}/.test(cgroups) ||
    argv[0] === 'ebb-sentinel' ||
    argv.slice(0, 8).some((word) => /(^|\/)bin\/(ebb|start\.cjs)$/.test(word))
  )
}

/** True for a systemd service and a desktop application: their manager ends them. */
function isManaged(cgroups: string): boolean {
  return cgroups.split('\n').some((line) => {
    const units = line
      .slice(line.indexOf(':', line.indexOf(':') + 1) + 1)
      .split('/')
      .filter((part) => /\.(service|scope|slice)$/.test(part))
    const last = units.at(-1) ?? ''
    if (/^user@\d+\.service$/.test(last)) return false
    return last.endsWith('.service') || /^app-.*(claude|codex|gemini|opencode)/i.test(last)
  })
}

function doubtsOf(fact: ProcessFact, detail: ProcessDetail, origin: Origin, family: readonly ProcessFact[], scene: ProcessScene): string[] {
  const doubts: string[] = []
  const stranger = family.find(({ uid }) => uid !== scene.uid)
  if (stranger)
    doubts.push(`${stranger === fact ? 'It' : `What runs below it (pid ${stranger.pid})`} belongs to another user (uid ${stranger.uid}).`)
  if (detail.hasEbbBelow) doubts.push('A process of an Ebb runs below it, and that Ebb ends it.')
  if (origin.kind !== 'agent' && family.some(({ tty }) => tty !== 0)) doubts.push('A terminal is open below it.')
  const owner = origin.mark?.ownerPid === undefined ? maybeOwner(fact, origin, family, scene) : undefined
  if (owner) doubts.push(`A ${owner.program} that still runs (pid ${owner.pid}) may have started it.`)
  if (origin.kind === 'agent' && origin.mark === undefined && detail.stdout.is === 'null') {
    if (detail.talks) doubts.push('Its output goes nowhere, and it has a network connection: it may be at work.')
    const work = workBelow(fact, scene.children)
    if (work) doubts.push(`Its output goes nowhere, and ${work.command} (pid ${work.pid}) runs below it: it may be at work.`)
  }
  if (
    origin.kind === 'agent' &&
    detail.listens &&
    fact.argv.some((word) => /^(serve|server|web|daemon|app-server|--port(=.*)?|--http)$/.test(word))
  )
    doubts.push('It was started as a server, and listens on a socket.')
  return doubts
}

/** The agent that may own the process. A tool whose mark has no pid may belong to any older agent of the same program. */
function maybeOwner(fact: ProcessFact, { program }: Origin, family: readonly ProcessFact[], { agents }: ProcessScene) {
  if (program === undefined) return undefined
  const own = new Set(family.map(({ pid }) => pid))
  return agents.find((agent) => agent.program === program && !own.has(agent.pid) && isOlder(agent.startTime, fact.startTime))
}

/**
 * True when the evidence is strong enough for `sure`. For an agent, output at /dev/null is weaker evidence than a pipe without a reader,
 * because the agent may have been started that way on purpose.
 */
function isSure(
  { isProven }: Loss,
  { kind, isCertain, mark, program }: Origin,
  { stdin, stdout }: ProcessDetail,
  scene: ProcessScene,
): boolean {
  if (!isCertain || !(isProven || program !== undefined)) return false
  if (stdout.is === 'pipe' && !scene.seesAll) return false
  if (kind === 'agent') return mark !== undefined || !(stdout.is === 'null')
  return kind === 'tool' || !('others' in stdin) || stdin.others === 'none'
}

function below(family: readonly ProcessFact[]): readonly string[] {
  const others = family.slice(1)
  if (others.length === 0) return []
  const names = [...new Set(others.map(({ command }) => command))]
  return [
    `Below it ${others.length === 1 ? 'runs' : `run ${others.length}:`} ${names.slice(0, 5).join(', ')}${names.length > 5 ? ', …' : ''}.`,
  ]
}
