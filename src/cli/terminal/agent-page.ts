import type { Agent } from '../../core/model/agent.ts'
import type { Resource } from '../../core/model/resource.ts'
import type { ProcessDetails } from '../../core/ports/process.ts'
import { layOut } from './columns.ts'
import { wrap } from './flow.ts'
import { statePaint, statusPaint } from './palette.ts'
import type { Style } from './style.ts'
import { ageOf, beginning, cutLine, cutStart, flat, harmless, many, padEnd, sizeOf, widthOf } from './text.ts'
import { branches } from './tree.ts'

/** The facts that `ebb show` prints of an agent: its record, its current processes and its resources. */
export interface AgentFacts {
  readonly agent: Agent
  readonly processes: readonly ProcessDetails[]
  readonly resources: readonly Resource[]
}

/** The page of an agent: on a terminal sections with trees, in a pipe one labelled fact per line. */
export function agentPage(facts: AgentFacts, style: Style, nowMs: number): readonly string[] {
  return style.width === undefined ? records(facts) : sections(facts, style, style.width, nowMs)
}

const labelWidth = 10

const plain = (text: string): string => text

/** How many lines of a long prompt are shown. */
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

function sections(facts: AgentFacts, style: Style, width: number, nowMs: number): readonly string[] {
  const { palette } = style
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
    ...(processes.length === 0 ? [palette.faint('  no running processes')] : processTable(processes, style, width, nowMs)),
    '',
    palette.strong(`Resources (${summary(resources)})`),
    ...resourceTree(resources, style, width),
  ]
}

function processTable(processes: readonly ProcessDetails[], { palette }: Style, width: number, nowMs: number): readonly string[] {
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
    // The indentation uses non-breaking spaces, because spaces at the beginning of a cell are removed.
    { text: `${stem.replaceAll(' ', '\u00a0')}${flat(value.command)}` },
  ])
  return layOut(columns, rows, width - 2, palette.faint).map((line) => `  ${line}`)
}

function summary(resources: readonly Resource[]): string {
  const counts = new Map<string, number>()
  for (const { state } of resources) counts.set(state, (counts.get(state) ?? 0) + 1)
  return resources.length === 0 ? 'none' : [...counts].map(([state, count]) => `${count} ${state}`).join(', ')
}

/** The minimum width of a resource's name, if the line has room for twice this width. */
const leastName = 24

/** Draws resources as a tree. A resource is drawn below the one that it depends on, and is released before that one. */
function resourceTree(resources: readonly Resource[], { palette }: Style, width: number): readonly string[] {
  const drawn = branches(
    resources,
    ({ id }) => id,
    ({ dependsOn }) => dependsOn.at(-1),
  )
  const kindWidth = Math.max(...drawn.map(({ value, stem }) => widthOf(stem + value.kind)))
  const room = Math.max(0, width - kindWidth - 6)
  const states = drawn.map(({ value }) => flat(stateOf(value)))
  // State and proof take precedence over the name, which may be a long path.
  const longest = Math.max(...states.map(widthOf))
  const nameWidth = Math.min(
    Math.max(...drawn.map(({ value }) => widthOf(flat(value.name)))),
    Math.max(room - longest, Math.min(leastName, Math.floor(room / 2))),
  )
  return drawn.map(({ value, stem }, at) => {
    const full = flat(value.name)
    const name = padEnd(full.startsWith('/') ? cutStart(full, nameWidth) : cutLine(full, nameWidth), nameWidth)
    const kind = padEnd(value.kind, kindWidth - widthOf(stem))
    const state = cutLine(states[at] ?? '', room - nameWidth)
    return `  ${palette.faint(stem)}${kind}  ${palette.accent(name)}  ${statePaint(palette, value.state)(state)}`
  })
}

/** The state of a resource, with its proof or the error that prevents its release. */
function stateOf({ state, error, proof, attempts }: Resource): string {
  if (error !== undefined) return `${state}: ${error}`
  if (state !== 'released') return attempts > 1 ? `${state} (${many(attempts, 'attempt')})` : state
  return proof ? `released, ${proof.strength}: ${proof.method}` : 'released'
}
