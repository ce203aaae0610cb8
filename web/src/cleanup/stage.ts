import type { Trigger } from '../../../src/core/model/close-request.ts'
import { isFinished, type Row } from './timeline.ts'

/** Whether a close with this trigger deletes rows and archives after the resources are released. */
export const deletesRecords = (trigger: Trigger): boolean => trigger === 'test-reset' || trigger === 'deleted'

/** The state of a close as the text of its badge, and an additional sentence. */
export function stageOf(
  { state, success, trigger }: { readonly state: 'running' | 'done'; readonly success: boolean; readonly trigger: Trigger },
  rows: readonly Pick<Row, 'state'>[],
): { readonly badge: string; readonly text: string } {
  if (state === 'done') return { badge: success ? 'clean' : 'not clean', text: '' }
  const isProcessed = rows.length > 0 && rows.every((row) => isFinished(row.state))
  if (!isProcessed || !deletesRecords(trigger)) return { badge: 'in progress', text: '' }
  return { badge: 'deleting rows and archives', text: ' All resources are processed; rows and archives are being deleted.' }
}
