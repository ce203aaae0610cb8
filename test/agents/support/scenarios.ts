import { expect } from 'vitest'
import type { Script } from '../../../src/scripted-model/index.ts'
import type { Spoken } from '../../support/conversation.ts'
import { programs } from './programs.ts'
import { habits, type Placement, patienceMs, type Scene, stands } from './scene.ts'

/** Scenarios: what the scripted model makes an agent do, and when the agent is ready to be stopped. */
export interface Scenario {
  /** The start of the test title "… leaves nothing". */
  readonly what: string
  readonly hasMcp?: true
  script(scene: Scene, placement: Placement): Script
  /** Resolves when the agent is ready to be stopped. In a scenario without this function the agent ends by itself. */
  readonly ready?: (scene: Scene) => Promise<void>
  /** The status of the agent after its own end, for a scenario in which the agent may end before it is stopped. */
  readonly mayEnd?: string
  /** Checks the messages of an agent that ended by itself, and the requests that the model received. */
  readonly check?: (messages: readonly Spoken[], scene: Scene) => void
}

const rule = (...turns: NonNullable<Script['rules']>[number]['turns']): Script => ({ rules: [{ turns }], otherwise: farewell })
const farewell = 'That was everything.'

/**
 * A process with this name that runs for ten minutes. A new bash runs it, because the tool's own shell may be any shell. `true` comes
 * first, because gemini removes a `bash -c` around a command, and its quotes with it.
 */
const sleepAs = (scene: Scene, name: string): string => `true; bash -c 'exec -a ${scene.name(name)} sleep 600'`

const nested = (scene: Scene): string => `true; bash -c "bash -c 'exec -a ${scene.name('tool')} sleep 600'; :"; :`

/** Two daemons that create a file when they run and outlive the tool. One keeps its environment, the other has none. */
function daemons(scene: Scene): string {
  const daemon = (name: string): string => `'touch ${scene.file(name)}; cd /; exec -a ${scene.name(name)} sleep 600'`
  const away = '</dev/null >/dev/null 2>&1 &'
  return `setsid bash -c ${daemon('daemon')} ${away} env -i /usr/bin/setsid /bin/bash -c ${daemon('bare')} ${away}`
}

const whenThere = (scene: Scene, names: readonly string[]): string =>
  `until ${names.map((name) => `[ -e ${scene.file(name)} ]`).join(' && ')}; do sleep 0.02; done`

const readyFiles = habits.map((habit) => `${habit}.ready`)
const mcpProcesses = habits.flatMap((habit) => [habit, `${habit}.child`])

const repeat = ({ type }: Scene): { tool: string; input: { text: string } } => ({
  tool: programs[type].repeat ?? 'repeat',
  input: { text: 'words' },
})

const answers = (text: string) => (messages: readonly Spoken[]) => {
  const words = messages.filter(({ type }) => type === 'assistant').map(({ content }) => content)
  expect(words.join('')).toContain(text)
}

async function asked(scene: Scene, times: number): Promise<void> {
  const isOfScript = ({ isAside }: { isAside: boolean }): boolean => !isAside
  await scene.model.waitFor(() => scene.model.requests.filter(isOfScript).length >= times, patienceMs)
}

/**
 * The hardest scenario: three MCP servers with a child each, two daemons, and a shell in a shell, all under a tool that has just started.
 */
export const hardest: Scenario = {
  what: 'MCP servers, daemons and a tool that has just started',
  hasMcp: true,
  script: (scene) => rule({ shell: `${daemons(scene)} ${whenThere(scene, readyFiles)}; ${nested(scene)}` }),
  ready: (scene) => stands(scene, [...mcpProcesses, 'daemon', 'bare', 'tool']),
}

export const plainAnswer: Scenario = {
  what: 'a plain answer',
  script: () => rule({ text: 'Hello from the script.', pace: { everyMs: 5, chars: 4 } }),
  check: answers('Hello from the script.'),
}

export const scenarios: readonly Scenario[] = [
  plainAnswer,
  {
    what: 'a tool younger than 3 s',
    script: (scene) => rule({ shell: sleepAs(scene, 'tool') }),
    ready: (scene) => stands(scene, ['tool']),
  },
  {
    what: 'a tool older than 3 s',
    script: (scene) => rule({ shell: `true; bash -c 'sleep 3.2'; ${sleepAs(scene, 'tool')}` }),
    ready: (scene) => stands(scene, ['tool']),
  },
  {
    what: 'nested shells',
    script: (scene) => rule({ shell: nested(scene) }),
    ready: (scene) => stands(scene, ['tool']),
  },
  {
    what: 'daemons of a tool, and a natural end',
    script: (scene) => rule({ shell: `${daemons(scene)} ${whenThere(scene, ['daemon', 'bare'])}; echo started` }),
    check: (messages, scene) => {
      answers(farewell)(messages)
      expect(scene.model.requests.some(({ toolResults }) => toolResults.some((text) => text.includes('started')))).toBe(true)
    },
  },
  {
    what: 'daemons of a tool, and a stop',
    script: (scene) => rule({ shell: `${daemons(scene)} ${whenThere(scene, ['daemon', 'bare'])}` }, { stall: 'forever' }),
    ready: async (scene) => {
      await stands(scene, ['daemon', 'bare'])
      await scene.model.waitFor(({ turn, state }) => turn === 1 && state === 'open', patienceMs)
    },
  },
  {
    what: 'MCP servers, one of which is used, and a natural end',
    hasMcp: true,
    script: (scene) => rule({ shell: `${whenThere(scene, readyFiles)}` }, repeat(scene)),
    check: (messages, scene) => {
      answers(farewell)(messages)
      expect(scene.model.requests.some(({ toolResults }) => toolResults.some((text) => text.includes('again: words')))).toBe(true)
      expect(messages.some(({ type, content }) => type === 'tool' && content.includes('again: words'))).toBe(true)
    },
  },
  {
    what: 'MCP servers, and a stop',
    hasMcp: true,
    script: (scene) => rule({ shell: whenThere(scene, readyFiles) }, repeat(scene), { stall: 'forever' }),
    ready: async (scene) => {
      await stands(scene, mcpProcesses)
      await scene.model.waitFor(({ turn, state }) => turn === 2 && state === 'open', patienceMs)
    },
  },
  {
    what: 'an endless stream',
    script: () => rule({ endless: 'and so on, ', pace: { everyMs: 5, chars: 32 } }),
    ready: (scene) => asked(scene, 1),
  },
  {
    what: 'an overloaded model',
    // Not every agent retries after both statuses, 429 and 529, so each status is used with some placements.
    script: (_, placement) => rule({ error: placement === 'process' ? 529 : 429 }),
    ready: (scene) => asked(scene, 2),
    mayEnd: 'failed',
  },
  {
    what: 'a model that is overloaded twice',
    script: () => rule([{ error: 529, times: 2, retryAfterMs: 100 }, { text: 'At last.' }]),
    check: answers('At last.'),
  },
  {
    what: 'a stream that is cut',
    script: () => rule([{ text: 'Half of ' }, { cut: true }]),
    ready: (scene) => asked(scene, 2),
    mayEnd: 'failed',
  },
  {
    what: 'a model that stalls',
    script: () => rule([{ text: 'Wait' }, { stall: 'forever' }]),
    ready: (scene) => asked(scene, 1),
  },
]
