import type { Trigger } from '../../../src/core/model/close-request.ts'
import { isOver, type Row } from './timeline.ts'

/** What was kept about the agents goes, too, and after them. */
export const emptiesRecord = (trigger: Trigger): boolean => trigger === 'test-reset' || trigger === 'deleted'

/** How far a close is, in a word or two, and what there is to add. */
export function stageOf(
  { state, success, trigger }: { readonly state: 'running' | 'done'; readonly success: boolean; readonly trigger: Trigger },
  rows: readonly Pick<Row, 'state'>[],
): { readonly badge: string; readonly words: string } {
  if (state === 'done') return { badge: success ? 'clean' : 'not clean', words: '' }
  const isGone = rows.length > 0 && rows.every((row) => isOver(row.state))
  if (!isGone || !emptiesRecord(trigger)) return { badge: 'under way', words: '' }
  return { badge: 'deleting rows and archives', words: ' Its resources are done; what is on record about them is being deleted.' }
}
