import type { AgentFacts } from '../terminal/agent-page.ts'
import type { LiveAgent, Snapshot } from './snapshot.ts'

/** What a person sees in `ebb top`, and what a key makes of it: a pure function of both. */

export const orders = ['age', 'memory', 'processes', 'messages', 'status'] as const
export type Order = (typeof orders)[number]

export interface TopState {
  readonly snapshot?: Snapshot
  /** Why the server does not answer, since the last snapshot. */
  readonly lost?: string
  readonly order: Order
  readonly selected?: string
  readonly page: 'list' | 'agent' | 'help'
  /** The agent on its page; undefined until it was asked for. */
  readonly facts?: AgentFacts | 'gone'
  readonly scroll: number
  /** The agent of which the person was asked whether to stop it. */
  readonly asked?: string
  /** What became of the last wish. */
  readonly note?: string
}

export const firstState: TopState = { order: 'age', page: 'list', scroll: 0 }

/** What has to be done about a key besides showing it. */
export type Deed =
  | { readonly is: 'quit' }
  | { readonly is: 'stop'; readonly id: string }
  | { readonly is: 'suspend' }
  | { readonly is: 'look' }

export interface Move {
  readonly state: TopState
  readonly deed?: Deed
}

const by: Readonly<Record<Order, (one: LiveAgent, other: LiveAgent) => number>> = {
  age: (one, other) => other.createdAt.localeCompare(one.createdAt),
  memory: (one, other) => (other.rssBytes ?? 0) - (one.rssBytes ?? 0),
  processes: (one, other) => (other.processes ?? 0) - (one.processes ?? 0),
  messages: (one, other) => other.session.messageCount - one.session.messageCount,
  status: (one, other) => one.status.localeCompare(other.status),
}

export function ordered({ snapshot, order }: TopState): readonly LiveAgent[] {
  return (snapshot?.agents ?? []).toSorted((one, other) => by[order](one, other) || one.id.localeCompare(other.id))
}

/** The chosen agent, or the first one when it is gone. */
export function chosen(state: TopState): LiveAgent | undefined {
  const agents = ordered(state)
  return agents.find(({ id }) => id === state.selected) ?? agents[0]
}

/** How much of a page the screen has room for, and how far it can be scrolled. */
export interface Extent {
  readonly room: number
  readonly most: number
}

export function press(state: TopState, key: string, extent: Extent = { room: 1, most: 0 }): Move {
  if (key === 'ctrl-c') return { state, deed: { is: 'quit' } }
  if (key === 'ctrl-z') return { state, deed: { is: 'suspend' } }
  if (state.asked !== undefined) return answer(state, state.asked, key)
  const { note: _note, ...quiet } = state
  if (state.page !== 'list') return onPage(quiet, key, extent)
  return onList(quiet, key)
}

/** Only a y is a yes. */
function answer({ asked: _asked, ...state }: TopState, id: string, key: string): Move {
  if (key !== 'y' && key !== 'Y') return { state: { ...state, note: 'It was not stopped.' } }
  return { state: { ...state, note: `Stopping ${id.slice(0, 8)}…` }, deed: { is: 'stop', id } }
}

function onList(state: TopState, key: string): Move {
  switch (key) {
    case 'q':
    case 'Q':
      return { state, deed: { is: 'quit' } }
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
      return ask(state)
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
      return state.page === 'agent' && state.facts !== 'gone' ? ask(state) : { state }
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
  return { state: { ...rest, selected: agent.id, page: 'agent', scroll: 0 }, deed: { is: 'look' } }
}

function ask(state: TopState): Move {
  const id = state.page === 'agent' ? state.selected : chosen(state)?.id
  return { state: id === undefined ? state : { ...state, selected: id, asked: id } }
}
