import type { Agent } from '../../core/model/agent.ts'
import type { Resource } from '../../core/model/resource.ts'
import type { ProcessDetails } from '../../core/ports/process.ts'
import { layOut } from './columns.ts'
import type { Face } from './face.ts'
import { wrap } from './flow.ts'
import { statePaint, statusPaint } from './palette.ts'
import { ageOf, beginning, cutLine, cutStart, flat, harmless, many, padEnd, sizeOf, widthOf } from './text.ts'
import { branches } from './tree.ts'

/** Everything of one agent: its facts, its processes as they are now, and what it made. */
export interface AgentFacts {
  readonly agent: Agent
  readonly processes: readonly ProcessDetails[]
  readonly resources: readonly Resource[]
}

/** On a terminal as sections with trees; in a pipe one fact a line, which begins with what it is about. */
export function agentPage(facts: AgentFacts, face: Face, nowMs: number): readonly string[] {
  return face.width === undefined ? records(facts) : sections(facts, face, face.width, nowMs)
}

const labelWidth = 10

const plain = (text: string): string => text

/** A prompt may be a book. */
const promptLines = 8

function factsOf({ agent }: AgentFacts): readonly (readonly [string, string])[] {
  const { session } = agent
  const facts: readonly (readonly [string, string | number | undefined])[] = [
    ['Agent', agent.id],
    ['Name', agent.name],
    ['Type', agent.type],
    ['Status', agent.status],
    ['Error', agent.error?.message],
    ['Exit', agent.signal ?? agent.exitCode],
    ['Namespace', agent.namespace],
    ['Request', agent.requestId],
    ['Task', agent.taskId],
    ['Placement', agent.placement],
    ['Folder', session.configuration.workingDirectory],
    ['Model', session.configuration.model],
    ['Created', agent.createdAt],
    ['Completed', agent.completedAt],
    ['Messages', session.messageCount],
    ['Prompt', session.prompt],
  ]
  return facts.flatMap(([name, value]) => (value === undefined || value === '' ? [] : [[name, String(value)] as const]))
}

function records(facts: AgentFacts): readonly string[] {
  const line = (label: string, ...words: readonly string[]): string => `${label.padEnd(labelWidth)} ${words.map(flat).join(' ')}`
  return [
    ...factsOf(facts).map(([label, value]) => line(label, value)),
    ...facts.processes.map(({ pid, command }) => line('Process', String(pid), command)),
    ...facts.resources.map((resource) => line('Resource', resource.kind, `${resource.name}: ${stateOf(resource)}`)),
  ]
}

function sections(facts: AgentFacts, face: Face, width: number, nowMs: number): readonly string[] {
  const { palette } = face
  const { agent, processes, resources } = facts
  const margin = ' '.repeat(labelWidth + 1)
  const head = factsOf(facts).flatMap(([label, value]) => {
    const lines = wrap(harmless(beginning(value, width * promptLines)).trim(), width - margin.length)
    const shown = lines.length > promptLines ? [...lines.slice(0, promptLines - 1), '…'] : lines
    const paint = label === 'Status' ? statusPaint(palette, agent.status) : label === 'Error' ? palette.bad : plain
    return shown.map((line, at) => (at === 0 ? `${palette.faint(padEnd(label, labelWidth))} ${paint(line)}` : `${margin}${paint(line)}`))
  })
  return [
    ...head,
    '',
    palette.strong(`Processes (${processes.length})`),
    ...(processes.length === 0 ? [palette.faint('  none is alive')] : processTable(processes, face, width, nowMs)),
    '',
    palette.strong(`Resources (${summary(resources)})`),
    ...resourceTree(resources, face, width),
  ]
}

function processTable(processes: readonly ProcessDetails[], { palette }: Face, width: number, nowMs: number): readonly string[] {
  const columns = [
    { name: 'PID', rank: 4, isNumber: true },
    { name: 'MEMORY', rank: 2, isNumber: true },
    { name: 'AGE', rank: 1, isNumber: true },
    { name: 'COMMAND', least: 12, rank: 3 },
  ]
  const rows = branches(
    processes,
    ({ pid }) => String(pid),
    ({ ppid }) => String(ppid),
  ).map(({ value, stem }) => [
    { text: String(value.pid), paint: palette.accent },
    { text: sizeOf(value.rssBytes) },
    { text: ageOf(Date.parse(value.startedAt), nowMs) },
    // A space at the beginning would be taken away as everywhere in a cell.
    { text: `${stem.replaceAll(' ', '\u00a0')}${flat(value.command)}` },
  ])
  return layOut(columns, rows, width - 2, palette.faint).map((line) => `  ${line}`)
}

function summary(resources: readonly Resource[]): string {
  const counts = new Map<string, number>()
  for (const { state } of resources) counts.set(state, (counts.get(state) ?? 0) + 1)
  return resources.length === 0 ? 'none' : [...counts].map(([state, count]) => `${count} ${state}`).join(', ')
}

/** So much of a name is shown as long as there is twice the room. */
const leastName = 24

/** What depends on something hangs below it: it goes first. */
function resourceTree(resources: readonly Resource[], { palette }: Face, width: number): readonly string[] {
  const drawn = branches(
    resources,
    ({ id }) => id,
    ({ dependsOn }) => dependsOn.at(-1),
  )
  const kindWidth = Math.max(...drawn.map(({ value, stem }) => widthOf(stem + value.kind)))
  const room = Math.max(0, width - kindWidth - 6)
  const states = drawn.map(({ value }) => flat(stateOf(value)))
  // The name may be a path; what becomes of the thing, and what proves it, is worth more.
  const longest = Math.max(...states.map(widthOf))
  const nameWidth = Math.min(
    Math.max(...drawn.map(({ value }) => widthOf(flat(value.name)))),
    Math.max(room - longest, Math.min(leastName, Math.floor(room / 2))),
  )
  return drawn.map(({ value, stem }, at) => {
    const full = flat(value.name)
    const name = padEnd(full.startsWith('/') ? cutStart(full, nameWidth) : cutLine(full, nameWidth), nameWidth)
    const kind = padEnd(value.kind, kindWidth - widthOf(stem))
    const told = cutLine(states[at] ?? '', room - nameWidth)
    return `  ${palette.faint(stem)}${kind}  ${palette.accent(name)}  ${statePaint(palette, value.state)(told)}`
  })
}

/** Its state, and what proves it, or what keeps it from going. */
function stateOf({ state, error, proof, attempts }: Resource): string {
  if (error !== undefined) return `${state}: ${error}`
  if (state !== 'released') return attempts > 1 ? `${state} (${many(attempts, 'attempt')})` : state
  return proof ? `released, ${proof.strength}: ${proof.method}` : 'released'
}
