import type { AgentStatus } from '../../core/model/agent.ts'
import type { ResourceState } from '../../core/model/resource.ts'

/** The colours of the output. A colour only repeats what the text says. */

export type Paint = (text: string) => string

export interface Palette {
  readonly strong: Paint
  readonly faint: Paint
  readonly good: Paint
  readonly busy: Paint
  readonly bad: Paint
  readonly accent: Paint
  /** The selected line, over the whole width. */
  readonly chosen: Paint
}

const plain: Paint = (text) => text

/** Select Graphic Rendition (ECMA-48, 8.3.117): sets an attribute and resets it after the text. */
const sgr = (on: number, off: number): Paint => {
  return (text) => (text === '' ? '' : `\u001b[${on}m${text}\u001b[${off}m`)
}

export const colours: Palette = {
  strong: sgr(1, 22),
  faint: sgr(2, 22),
  good: sgr(32, 39),
  busy: sgr(33, 39),
  bad: sgr(31, 39),
  accent: sgr(36, 39),
  chosen: sgr(7, 27),
}

export const noColours: Palette = { strong: plain, faint: plain, good: plain, busy: plain, bad: plain, accent: plain, chosen: plain }

export function statusPaint(palette: Palette, status: AgentStatus): Paint {
  if (status === 'running' || status === 'initializing') return palette.good
  if (status === 'stopping') return palette.busy
  if (status === 'failed' || status === 'stuck') return palette.bad
  return palette.faint
}

export function statePaint(palette: Palette, state: ResourceState): Paint {
  if (state === 'stuck') return palette.bad
  if (state === 'closing' || state === 'intended') return palette.busy
  return state === 'held' ? palette.good : palette.faint
}
