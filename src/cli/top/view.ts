import { agentPage } from '../terminal/agent-page.ts'
import { type Cell, type Column, layOut } from '../terminal/columns.ts'
import { statusPaint } from '../terminal/palette.ts'
import type { Style } from '../terminal/style.ts'
import { ageOf, cut, cutLine, many, padEnd, shortId, sizeOf } from '../terminal/text.ts'
import type { LiveAgent, RunningClose, Snapshot } from './snapshot.ts'
import { chosen, type Extent, ordered, type TopState } from './state.ts'

/** Draws a state. The result fits the width and height of the screen. */

export interface Screen {
  readonly style: Style
  readonly width: number
  readonly height: number
  readonly nowMs: number
}

/** How many running closes are listed. The others are counted. */
const closesShown = 3

export function draw(state: TopState, screen: Screen): readonly string[] {
  const head = [...headOf(state, screen), '']
  const foot = footOf(state, screen)
  const room = roomBelow(head, screen)
  const body = bodyOf(state, screen, room)
  // The page may have become shorter than the scroll position.
  const from = Math.min(state.scroll, Math.max(0, body.length - room))
  const shown = body.slice(from, from + room)
  const filled = [...shown, ...Array.from({ length: Math.max(0, room - shown.length) }, () => '')]
  return [...head, ...filled, foot].slice(-screen.height)
}

/** How far the page of this state can be scrolled on this screen. */
export function extentOf(state: TopState, screen: Screen): Extent {
  const room = roomBelow([...headOf(state, screen), ''], screen)
  return { room, most: Math.max(0, bodyOf(state, screen, room).length - room) }
}

function roomBelow(head: readonly string[], { height }: Screen): number {
  return Math.max(1, height - head.length - 1)
}

function headOf({ snapshot, lost }: TopState, { style: { palette }, width, nowMs }: Screen): readonly string[] {
  const { strong, faint, bad } = palette
  if (!snapshot) return [strong('ebb top'), lost === undefined ? faint('Waiting for the server…') : bad(cut(`✗ ${lost}`, width))]
  const title = cut(`ebb top · ${snapshot.url} · ${snapshot.at.slice(11, 19)} UTC`, width)
  return [
    strong(title),
    cutLine(totalsOf(snapshot).join(' · '), width),
    lost === undefined
      ? systemOf(snapshot, { palette, width })
      : bad(cut(`✗ Retrying; last update ${snapshot.at.slice(11, 19)}. ${lost}`, width)),
    ...closesOf(snapshot.closes, width, nowMs).map(palette.busy),
  ]
}

export function totalsOf({ totals: { agents, messages, processes, rssBytes } }: Snapshot): readonly string[] {
  return [
    many(agents, 'agent'),
    processes === undefined ? 'processes unknown' : many(processes, 'process', 'processes'),
    rssBytes === undefined ? 'memory unknown' : `${sizeOf(rssBytes)} of memory`,
    many(messages, 'message'),
  ]
}

/** Says whether the system is clean, and otherwise what is stuck, held back or leaked. */
export function systemOf({ status }: Snapshot, { palette, width = Number.POSITIVE_INFINITY }: Style): string {
  const { stuck, heldBack, leaks, isClean } = status
  if (isClean) return palette.good('The system is clean.')
  const wrong = [
    ...(stuck.length > 0 ? [`${stuck.length} stuck`] : []),
    ...(heldBack.length > 0 ? [`${heldBack.length} held back`] : []),
    ...(leaks.length > 0 ? [many(leaks.length, 'leak')] : []),
  ]
  if (wrong.length === 0) return palette.good(cutLine('Nothing is stuck, held back or leaked.', width))
  return palette.bad(cut(`✗ ${wrong.join(', ')}: ${[...stuck, ...heldBack, ...leaks][0] ?? ''}`, width))
}

export function closesOf(closes: readonly RunningClose[], width: number, nowMs: number): readonly string[] {
  const shown = closes.slice(0, closesShown).map(({ scope, trigger, startedAt }) => {
    const name = scope.kind === 'agent' ? shortId(scope.id) : scope.id
    return cut(`closing ${scope.kind} ${name} (${trigger}) for ${ageOf(Date.parse(startedAt), nowMs)}`, width)
  })
  return closes.length > closesShown ? [...shown, cut(`… and ${closes.length - closesShown} more closes`, width)] : shown
}

function bodyOf(state: TopState, screen: Screen, room: number): readonly string[] {
  if (state.page === 'help') return helpLines.map((line) => cutLine(line, screen.width))
  if (state.page === 'agent') return pageOf(state, screen)
  return listOf(state, screen, room)
}

function pageOf({ facts }: TopState, { style, nowMs }: Screen): readonly string[] {
  if (!facts) return [style.palette.faint('Loading…')]
  return facts === 'gone' ? ['This agent was deleted.'] : agentPage(facts, style, nowMs)
}

export const columns: readonly Column[] = [
  { name: 'ID', rank: 9 },
  { name: 'TYPE', least: 7, rank: 3 },
  { name: 'PLACEMENT', rank: 1 },
  { name: 'STATUS', rank: 8 },
  { name: 'AGE', rank: 6, isNumber: true },
  { name: 'MSGS', rank: 2, isNumber: true },
  { name: 'MEMORY', rank: 5, isNumber: true },
  { name: 'PROCS', rank: 4, isNumber: true },
  { name: 'PROMPT', least: 10, rank: 7 },
]

export function cellsOf(agent: LiveAgent, { palette, width }: Style, nowMs: number): readonly Cell[] {
  const { id, type, placement, status, createdAt, session, rssBytes, processes } = agent
  return [
    { text: width === undefined ? id : shortId(id), paint: palette.accent },
    { text: type },
    { text: placement },
    { text: status, paint: statusPaint(palette, status) },
    { text: ageOf(Date.parse(createdAt), nowMs) },
    { text: String(session.messageCount) },
    { text: rssBytes === undefined ? '-' : sizeOf(rssBytes).replace(' ', '') },
    { text: processes === undefined ? '-' : String(processes) },
    { text: session.prompt },
  ]
}

/** The part of the list around the selected agent. */
function listOf(state: TopState, { style, width, nowMs }: Screen, room: number): readonly string[] {
  const agents = ordered(state)
  if (!state.snapshot) return []
  if (agents.length === 0) return [style.palette.faint(cutLine('No agents are running. Start one: ebb run claude-code "…"', width))]
  const at = Math.max(
    0,
    agents.findIndex(({ id }) => id === chosen(state)?.id),
  )
  const lines = Math.max(1, room - 1)
  const from = Math.max(0, Math.min(at - Math.floor(lines / 2), agents.length - lines))
  const shown = agents.slice(from, from + lines)
  const cells = shown.map((agent) => cellsOf(agent, style, nowMs))
  const [heading = '', ...rows] = layOut(columns, cells, width - 2, style.palette.faint)
  // The selected line contains no other colours, because those would end its highlight. The mark shows the selection without colours.
  const plainCells = cells.map((row) => row.map(({ text }) => ({ text })))
  const chosenRow = layOut(columns, plainCells, width - 2, (text) => text)[at - from + 1] ?? ''
  const row = (line: string, index: number): string =>
    from + index === at ? style.palette.chosen(`❯ ${padEnd(chosenRow, width - 2)}`) : `  ${line}`
  return [`  ${heading}`, ...rows.map(row)]
}

const helpLines = [
  'Keys',
  '',
  '  ↑ ↓  j k     select an agent',
  '  Enter        show the agent: record, processes, resources; again to go back',
  '  s            stop the agent, after a confirmation',
  '  r            change the sort order: age, memory, processes, messages, status',
  '  ?            show this page',
  '  q  Ctrl-C    quit',
  '',
  'MEMORY and PROCS include everything that the agent started.',
  'Viewing and quitting do not affect agents.',
]

function footOf(state: TopState, { style: { palette }, width }: Screen): string {
  if (state.confirming !== undefined) return palette.busy(cut(`Stop the agent ${shortId(state.confirming)}? y/n`, width))
  if (state.note !== undefined) return cut(state.note, width)
  if (state.page === 'help' || state.facts === 'gone') return palette.faint(cut('q back', width))
  if (state.page === 'agent') return palette.faint(cut('q back · ↑↓ scroll · s stop', width))
  return palette.faint(cut(`q quit · ? help · ↑↓ select · Enter show · s stop · r sort (${state.order})`, width))
}
