import { styleText } from 'node:util'
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

/** `readAppearance` decides whether colours are used, so the stream is not examined again. */
const paint = (format: Parameters<typeof styleText>[0]): Paint => {
  return (text) => (text === '' ? '' : styleText(format, text, { validateStream: false }))
}

export const colours: Palette = {
  strong: paint('bold'),
  faint: paint('dim'),
  good: paint('green'),
  busy: paint('yellow'),
  bad: paint('red'),
  accent: paint('cyan'),
  chosen: paint('inverse'),
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
