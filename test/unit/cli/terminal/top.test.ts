import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { colours, noColours } from '../../../../src/cli/terminal/palette.ts'
import { harmless, widthOf } from '../../../../src/cli/terminal/text.ts'
import { keysOf } from '../../../../src/cli/top/keys.ts'
import type { LiveAgent, Snapshot } from '../../../../src/cli/top/snapshot.ts'
import { chosen, firstState, type Move, ordered, press, type TopState } from '../../../../src/cli/top/state.ts'
import { draw } from '../../../../src/cli/top/view.ts'

const agent = (id: string, more: Partial<LiveAgent> = {}): LiveAgent => ({
  id,
  type: 'command',
  status: 'running',
  placement: 'process',
  namespace: 'default',
  session: { id: 's', prompt: 'a prompt', messageCount: 2, configuration: {} },
  createdAt: '2026-11-16T12:00:00.000Z',
  ...more,
})

const snapshot = (agents: readonly LiveAgent[]): Snapshot => ({
  at: '2026-11-16T12:01:00.000Z',
  url: 'http://127.0.0.1:4400',
  agents,
  totals: { agents: agents.length, messages: 0 },
  status: {
    isClean: false,
    agentCount: agents.length,
    messageCount: 0,
    runningProcesses: 0,
    activeSubscriptions: 0,
    resources: {},
    leaks: [],
    stuck: [],
    heldBack: [],
  },
  closes: [],
})

const three = ['aaaaaaaa', 'bbbbbbbb', 'cccccccc'].map((id, index) =>
  agent(id, { rssBytes: 3 - index, createdAt: `2026-11-16T12:00:0${9 - index}.000Z` }),
)
const state: TopState = { ...firstState, snapshot: snapshot(three) }
const play = (from: TopState, ...keys: readonly string[]): Move => keys.reduce<Move>((move, key) => press(move.state, key), { state: from })

describe('ebb top: keys', () => {
  it('are recognised by their sequences, several at once, and unknown ones are ignored', () => {
    expect(keysOf('j\u001b[A\u001bOB\r\u001b[5~\u001b[1;5C?\u001b\u0003')).toEqual([
      'j',
      'up',
      'down',
      'enter',
      'page-up',
      '?',
      'escape',
      'ctrl-c',
    ])
    expect(keysOf('')).toEqual([])
  })

  it('select an agent and stop at the ends; when it is gone, the first is selected', () => {
    expect(chosen(state)?.id).toBe('aaaaaaaa')
    expect(chosen(play(state, 'down', 'j').state)?.id).toBe('cccccccc')
    expect(chosen(play(state, 'down', 'j', 'j', 'j').state)?.id).toBe('cccccccc')
    expect(chosen(play(state, 'end', 'up', 'k', 'k').state)?.id).toBe('aaaaaaaa')
    const gone = { ...play(state, 'end').state, snapshot: snapshot(three.slice(0, 1)) }
    expect(chosen(gone)?.id).toBe('aaaaaaaa')
  })

  it('s asks for confirmation, and only y stops the agent', () => {
    expect(play(state, 'down', 's')).toEqual({ state: expect.objectContaining({ confirming: 'bbbbbbbb' }) })
    expect(play(state, 'down', 's', 'y').action).toEqual({ is: 'stop', id: 'bbbbbbbb' })
    for (const key of ['n', 'enter', 'q', 'escape', 's', ' ']) {
      const move = play(state, 's', key)
      expect([move.action, move.state.confirming]).toEqual([undefined, undefined])
    }
    expect(play({ ...state, snapshot: snapshot([]) }, 's').state.confirming).toBeUndefined()
  })

  it('Enter shows an agent and returns, ? shows help, r sorts, q and Ctrl-C quit', () => {
    expect(play(state, 'down', 'enter')).toMatchObject({ state: { page: 'agent', selected: 'bbbbbbbb' }, action: { is: 'load' } })
    expect(play(state, 'enter', 'q')).toEqual({ state: expect.objectContaining({ page: 'list' }) })
    expect(play(state, '?', 'escape').state.page).toBe('list')
    expect(ordered(play(state, 'r').state).map(({ id }) => id)).toEqual(['aaaaaaaa', 'bbbbbbbb', 'cccccccc'])
    expect(play(state, 'r', 'r', 'r', 'r', 'r').state.order).toBe('age')
    expect(play(state, 'q').action).toEqual({ is: 'quit' })
    expect(play(state, 's', 'ctrl-c').action).toEqual({ is: 'quit' })
  })
})

describe('ebb top: the screen', () => {
  it("fits any size, whatever the agents' fields contain", () => {
    const agents = fc.array(
      fc.record({
        id: fc.uuid(),
        prompt: fc.string({ unit: 'binary', maxLength: 80 }),
        type: fc.string({ unit: 'binary', maxLength: 30 }),
      }),
      { maxLength: 40 },
    )
    const sizes = { width: fc.integer({ min: 20, max: 220 }), height: fc.integer({ min: 3, max: 50 }) }
    fc.assert(
      fc.property(agents, fc.record(sizes), fc.constantFrom('', '?', 's', 'r'), (all, { width, height }, key) => {
        const live = all.map(({ id, prompt, type }) => agent(id, { type, session: { id, prompt, messageCount: 1, configuration: {} } }))
        const shown = play({ ...firstState, snapshot: snapshot(live) }, key).state
        const lines = draw(shown, { style: { width, palette: colours }, width, height, nowMs: 0 })
        expect(lines.length).toBeLessThanOrEqual(height)
        for (const line of lines) expect(widthOf(harmless(line))).toBeLessThanOrEqual(width)
      }),
      { numRuns: 60 },
    )
  })

  it('shows the selected agent among hundreds, also without colours', () => {
    const many = Array.from({ length: 300 }, (_, index) => agent(`${String(index).padStart(8, '0')}-x`))
    const at = play({ ...firstState, snapshot: snapshot(many) }, 'end', 'up').state
    const lines = draw(at, { style: { width: 80, palette: noColours }, width: 80, height: 20, nowMs: 0 })
    expect(lines.filter((line) => line.startsWith('❯ '))).toEqual([expect.stringContaining('00000298')])
  })

  it('shows that the server is gone, and what is stuck', () => {
    const screen = { style: { width: 90, palette: noColours }, width: 90, height: 12, nowMs: 0 }
    expect(draw({ ...state, lost: 'No server answers.' }, screen).join('\n')).toMatch(
      /✗ Retrying; last update 12:01:00\. No server answers\./,
    )
    const bad = { ...snapshot(three), status: { ...snapshot([]).status, stuck: ['process-tree x'], leaks: ['y'] } }
    expect(draw({ ...state, snapshot: bad }, screen).join('\n')).toContain('✗ 1 stuck, 1 leak: process-tree x')
  })
})
