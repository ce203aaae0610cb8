import type { Trigger } from '../../../src/core/model/close-request.ts'
import type { ReleaseState } from '../../../src/core/model/progress.ts'
import { waitsForOthers } from '../../../src/core/model/report.ts'
import type { Proof } from '../../../src/core/model/resource.ts'
import type { Tone } from '../pieces/badge.tsx'
import { duration } from '../pieces/format.ts'
import type { Phase, Row } from './timeline.ts'

/** Display texts for triggers, phases, states and proofs. */

/** The reason of a close. The trigger `request-finished` is also used for a cleanup of other scopes, which has a text of its own. */
export function reasonOf({ trigger, scope }: { readonly trigger: Trigger; readonly scope: { readonly kind: string } }): string {
  const isRequest = scope.kind === 'request' || scope.kind === 'task'
  return trigger === 'request-finished' ? (isRequest ? 'finished' : 'cleanup requested') : triggerTexts[trigger]
}

export const triggerTexts: Readonly<Record<Trigger, string>> = {
  completed: 'agent completed',
  terminated: 'stopped',
  deleted: 'deleted',
  'request-finished': 'finished, or cleanup requested',
  'process-exit': 'server exited',
  'test-reset': 'reset requested',
  'launch-rollback': 'launch failed',
  reaper: 'found by the reaper',
  recovery: 'supervisor died',
}

export const phaseTexts: Readonly<Record<Phase, { readonly name: string; readonly does: string }>> = {
  waiting: { name: 'waiting', does: 'waited until the resources that depend on it were gone' },
  looking: { name: 'check', does: 'checked whether it is present' },
  obligations: { name: 'obligations', does: 'met its obligations, such as archiving a log' },
  polite: { name: 'polite', does: 'asked it to stop' },
  terminate: { name: 'terminate', does: 'requested termination' },
  kill: { name: 'kill', does: 'killed it' },
  removed: { name: 'removed', does: 'removed it' },
}

export const phases = Object.keys(phaseTexts) as readonly Phase[]

const stateTexts: Readonly<Record<ReleaseState, { readonly text: string; readonly tone: Tone }>> = {
  waiting: { text: 'waiting', tone: 'over' },
  looking: { text: 'checking', tone: 'wait' },
  obligations: { text: 'meeting obligations', tone: 'wait' },
  polite: { text: 'asked to stop', tone: 'wait' },
  terminate: { text: 'termination requested', tone: 'wait' },
  kill: { text: 'being killed', tone: 'wait' },
  released: { text: 'released', tone: 'good' },
  stuck: { text: 'stuck', tone: 'alarm' },
  'held-back': { text: 'held back', tone: 'alarm' },
  'given-up': { text: 'released, obligation given up', tone: 'bad' },
}

const proofSources: Readonly<Record<Proof['strength'], string>> = {
  kernel: 'the kernel',
  api: 'the owning service',
  scan: 'a scan, which can miss something',
}

/** True if the resource has no error of its own, but waits for its dependents. The server reports this in the error field. */
export function isWaiting({ error }: { readonly error?: string | undefined }): boolean {
  return error?.endsWith(waitsForOthers) ?? false
}

/** The text and tone of a row's state. A resource without processes is shown as removed, not as killed, and a waiting one as waiting. */
export function stateOf({ state, pieces, error }: Pick<Row, 'state' | 'pieces' | 'error'>): { readonly text: string; readonly tone: Tone } {
  if (isWaiting({ error })) return { text: 'waiting', tone: 'wait' }
  const isRemoved = state === 'kill' && pieces.at(-1)?.phase === 'removed'
  return isRemoved ? { text: 'being removed', tone: 'wait' } : stateTexts[state]
}

/** A proof as text, such as `the kernel: cgroup empty and removed`. */
export function proofText({ method, strength }: Proof): string {
  return `${proofSources[strength]}: ${method}`
}

/** The phases of one resource as text, for the tooltip and for screen readers. */
export function stepTextsOf(row: Row, nowMs: number): readonly { readonly key: string; readonly text: string }[] {
  return row.pieces.map(({ phase, fromMs, toMs }) => {
    const took = duration(Math.max(0, (toMs ?? nowMs) - fromMs))
    const text = `${phase === 'waiting' ? waitText(row) : phaseTexts[phase].does}: ${took}${toMs === undefined ? ' so far' : ''}`
    return { key: `${phase} ${fromMs}`, text }
  })
}

function waitText({ waitedFor }: Row): string {
  return waitedFor.length > 0 ? `waited for the resources that depend on it (${waitedFor.join(', ')})` : 'waited for its turn'
}
