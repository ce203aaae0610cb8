import type { AgentFacts } from '../terminal/agent-page.ts'
import type { LiveAgent, Snapshot } from './snapshot.ts'

/** The state of `ebb top`, and how keys change it. Both are pure. */

export const orders = ['age', 'memory', 'processes', 'messages', 'status'] as const
export type Order = (typeof orders)[number]

export interface TopState {
  readonly snapshot?: Snapshot
  /** Why the server has not answered since the last snapshot. */
  readonly lost?: string
  readonly order: Order
  readonly selected?: string
  readonly page: 'list' | 'agent' | 'help'
  /** The data of the agent page; undefined until it is loaded. */
  readonly facts?: AgentFacts | 'gone'
  readonly scroll: number
  /** The agent whose stop waits for a confirmation. */
  readonly confirming?: string
  /** The result of the last stop request. */
  readonly note?: string
}

export const firstState: TopState = { order: 'age', page: 'list', scroll: 0 }

/** An action that a key of `ebb top` requests, besides drawing the new state. */
export type Action =
  | { readonly is: 'quit' }
  | { readonly is: 'stop'; readonly id: string }
  | { readonly is: 'suspend' }
  | { readonly is: 'load' }

export interface Move {
  readonly state: TopState
  readonly action?: Action
}

const comparisons: Readonly<Record<Order, (one: LiveAgent, other: LiveAgent) => number>> = {
  age: (one, other) => other.createdAt.localeCompare(one.createdAt),
  memory: (one, other) => (other.rssBytes ?? 0) - (one.rssBytes ?? 0),
  processes: (one, other) => (other.processes ?? 0) - (one.processes ?? 0),
  messages: (one, other) => other.session.messageCount - one.session.messageCount,
  status: (one, other) => one.status.localeCompare(other.status),
}

export function ordered({ snapshot, order }: TopState): readonly LiveAgent[] {
  return (snapshot?.agents ?? []).toSorted((one, other) => comparisons[order](one, other) || one.id.localeCompare(other.id))
}

/** The selected agent, or the first one if the selected one is gone. */
export function chosen(state: TopState): LiveAgent | undefined {
  const agents = ordered(state)
  return agents.find(({ id }) => id === state.selected) ?? agents[0]
}

/** The height of a page on the screen, and how far it can be scrolled. */
export interface Extent {
  readonly room: number
  readonly most: number
}

export function press(state: TopState, key: string, extent: Extent = { room: 1, most: 0 }): Move {
  if (key === 'ctrl-c') return { state, action: { is: 'quit' } }
  if (key === 'ctrl-z') return { state, action: { is: 'suspend' } }
  if (state.confirming !== undefined) return confirm(state, state.confirming, key)
  const { note: _note, ...quiet } = state
  if (state.page !== 'list') return onPage(quiet, key, extent)
  return onList(quiet, key)
}

/** Only the key y confirms. */
function confirm({ confirming: _confirming, ...state }: TopState, id: string, key: string): Move {
  if (key !== 'y' && key !== 'Y') return { state: { ...state, note: 'The agent was not stopped.' } }
  return { state: { ...state, note: `Stopping ${id.slice(0, 8)}…` }, action: { is: 'stop', id } }
}

function onList(state: TopState, key: string): Move {
  switch (key) {
    case 'q':
    case 'Q':
      return { state, action: { is: 'quit' } }
    case 'up':
    case 'k':
      return { state: step(state, -1) }
    case 'down':
    case 'j':
      return { state: step(state, 1) }
    case 'page-up':
      return { state: step(state, -10) }
    case 'page-down':
      return { state: step(state, 10) }
    case 'home':
      return { state: step(state, Number.NEGATIVE_INFINITY) }
    case 'end':
      return { state: step(state, Number.POSITIVE_INFINITY) }
    case 'enter':
      return open(state)
    case 's':
      return askToStop(state)
    case 'r':
      return { state: { ...state, order: orders[(orders.indexOf(state.order) + 1) % orders.length] ?? 'age' } }
    case '?':
    case 'h':
      return { state: { ...state, page: 'help', scroll: 0 } }
    default:
      return { state }
  }
}

function onPage(state: TopState, key: string, { room, most }: Extent): Move {
  const scrolled = (by: number): Move => ({ state: { ...state, scroll: Math.max(0, Math.min(most, Math.min(most, state.scroll) + by)) } })
  switch (key) {
    case 'q':
    case 'escape':
    case 'enter':
    case 'left': {
      const { facts: _facts, ...list } = state
      return { state: { ...list, page: 'list', scroll: 0 } }
    }
    case 'up':
    case 'k':
      return scrolled(-1)
    case 'down':
    case 'j':
      return scrolled(1)
    case 'page-up':
      return scrolled(1 - Math.max(2, room))
    case 'page-down':
      return scrolled(Math.max(2, room) - 1)
    case 'home':
      return scrolled(Number.NEGATIVE_INFINITY)
    case 'end':
      return scrolled(Number.POSITIVE_INFINITY)
    case 's':
      return state.page === 'agent' && state.facts !== 'gone' ? askToStop(state) : { state }
    default:
      return { state }
  }
}

function step(state: TopState, by: number): TopState {
  const agents = ordered(state)
  const at = agents.findIndex(({ id }) => id === chosen(state)?.id)
  const next = agents[Math.min(agents.length - 1, Math.max(0, at + by))]
  return next ? { ...state, selected: next.id } : state
}

function open(state: TopState): Move {
  const agent = chosen(state)
  if (!agent) return { state }
  const { facts: _facts, ...rest } = state
  return { state: { ...rest, selected: agent.id, page: 'agent', scroll: 0 }, action: { is: 'load' } }
}

function askToStop(state: TopState): Move {
  const id = state.page === 'agent' ? state.selected : chosen(state)?.id
  return { state: id === undefined ? state : { ...state, selected: id, confirming: id } }
}
