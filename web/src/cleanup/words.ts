import type { Trigger } from '../../../src/core/model/close-request.ts'
import type { ReleaseState } from '../../../src/core/model/progress.ts'
import { waitsForOthers } from '../../../src/core/model/report.ts'
import type { Proof } from '../../../src/core/model/resource.ts'
import type { Tone } from '../pieces/badge.tsx'
import { duration } from '../pieces/format.ts'
import type { Phase, Row } from './timeline.ts'

/** What the parts of a close are called, for people. */

/** `request-finished` is also what a cleanup of anything else is called. */
export function whyOf({ trigger, scope }: { readonly trigger: Trigger; readonly scope: { readonly kind: string } }): string {
  const isRequest = scope.kind === 'request' || scope.kind === 'task'
  return trigger === 'request-finished' ? (isRequest ? 'it was over' : 'a cleanup was asked for') : triggerWords[trigger]
}

export const triggerWords: Readonly<Record<Trigger, string>> = {
  completed: 'the agent ended by itself',
  terminated: 'it was stopped',
  deleted: 'it was deleted',
  'request-finished': 'it was over, or a cleanup was asked for',
  'process-exit': 'the server left',
  'test-reset': 'a reset was asked for',
  'launch-rollback': 'its launch failed',
  reaper: 'the reaper found it',
  recovery: 'its supervisor had died',
}

export const phaseWords: Readonly<Record<Phase, { readonly name: string; readonly does: string }>> = {
  waiting: { name: 'waiting', does: 'waited for its turn, which comes when what depends on it is gone' },
  looking: { name: 'look', does: 'looked whether it is there' },
  obligations: { name: 'owed work', does: 'did what was owed before it may go, such as archiving a log' },
  polite: { name: 'polite', does: 'asked politely' },
  terminate: { name: 'terminate', does: 'told it to end' },
  kill: { name: 'kill', does: 'killed it' },
  removed: { name: 'removed', does: 'removed it' },
}

export const phases = Object.keys(phaseWords) as readonly Phase[]

const stateWords: Readonly<Record<ReleaseState, { readonly text: string; readonly tone: Tone }>> = {
  waiting: { text: 'waiting', tone: 'over' },
  looking: { text: 'looking', tone: 'wait' },
  obligations: { text: 'owed work', tone: 'wait' },
  polite: { text: 'asked politely', tone: 'wait' },
  terminate: { text: 'told to end', tone: 'wait' },
  kill: { text: 'being killed', tone: 'wait' },
  released: { text: 'released', tone: 'good' },
  stuck: { text: 'stuck', tone: 'alarm' },
  'held-back': { text: 'held back', tone: 'alarm' },
  'given-up': { text: 'released, something given up', tone: 'bad' },
}

const vouchers: Readonly<Record<Proof['strength'], string>> = {
  kernel: 'the kernel',
  api: 'its own service',
  scan: 'a scan, which can miss something',
}

/** Nothing is wrong with it: something that depends on it is still there. The server says so where it says what is wrong with others. */
export function isWaiting({ error }: { readonly error?: string | undefined }): boolean {
  return error?.endsWith(waitsForOthers) ?? false
}

/** A log is not killed, and what waits is not held back by anything of its own. */
export function stateOf({ state, pieces, error }: Pick<Row, 'state' | 'pieces' | 'error'>): { readonly text: string; readonly tone: Tone } {
  if (isWaiting({ error })) return { text: 'waits', tone: 'wait' }
  const isRemoved = state === 'kill' && pieces.at(-1)?.phase === 'removed'
  return isRemoved ? { text: 'being removed', tone: 'wait' } : stateWords[state]
}

/** `the kernel: cgroup empty and removed`. */
export function proofWords({ method, strength }: Proof): string {
  return `${vouchers[strength]}: ${method}`
}

/** What happened to one resource, sentence by sentence: for who cannot see the bars, and for who wants it exactly. */
export function storyOf(row: Row, nowMs: number): readonly { readonly key: string; readonly text: string }[] {
  return row.pieces.map(({ phase, fromMs, toMs }) => {
    const took = duration(Math.max(0, (toMs ?? nowMs) - fromMs))
    const text = `${phase === 'waiting' ? waitWords(row) : phaseWords[phase].does}: ${took}${toMs === undefined ? ' so far' : ''}`
    return { key: `${phase} ${fromMs}`, text }
  })
}

function waitWords({ waitedFor }: Row): string {
  return waitedFor.length > 0 ? `waited for what depends on it (${waitedFor.join(', ')})` : 'waited for its turn'
}
