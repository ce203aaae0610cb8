import type { CloseDetail } from '../api/closes.ts'
import type { Report } from '../api/shapes.ts'
import { Badge } from '../pieces/badge.tsx'
import { duration, moment, plural } from '../pieces/format.ts'
import { deletesRecords, stageOf } from './stage.ts'
import { neededKill, type Row } from './timeline.ts'
import { reasonOf } from './words.ts'

export interface SummaryProps {
  readonly close: CloseDetail
  readonly rows: readonly Row[]
  readonly isRunning: boolean
  /** The time since the start of the close, from the same clock as the bars below. */
  readonly nowMs: number
}

/** A close in a few sentences: its reason, its duration, its result, and the weakest proof. */
export function Summary({ close, rows, isRunning, nowMs }: SummaryProps) {
  if (close.state === 'running' && !isRunning) return <UnknownState close={close} />
  const stage = stageOf(close, rows)
  return (
    <div className="close__summary">
      <div className="close__state" role="status">
        <Badge tone={isRunning ? 'wait' : close.success ? 'good' : 'alarm'}>{stage.badge}</Badge>
        {rows.some(neededKill) && <Badge tone="bad">kill needed</Badge>}
      </div>
      <p>
        {isRunning ? (
          <>
            Started at {moment(close.startedAt)}. Reason: {reasonOf(close)}. Running for{' '}
            <span className="close__clock">{duration(nowMs)}</span>.{stage.text}
          </>
        ) : (
          <FinishedText close={close} rows={rows} />
        )}
      </p>
    </div>
  )
}

function FinishedText({ close, rows }: Pick<SummaryProps, 'close' | 'rows'>) {
  const { released, stuck, report } = close
  const strengths = new Set(report?.resources.flatMap(({ proof }) => proof?.strength ?? []))
  const weakest = strengths.has('scan') ? ' At least one proof is a scan, which can miss something.' : ''
  const killed = rows.filter(neededKill).length
  return (
    <>
      Started at {moment(close.startedAt)}. Reason: {reasonOf(close)}. Duration: {duration(close.duration)}.
      {killed > 0 && ` ${plural(killed, 'resource')} did not end when asked to, and had to be killed.`}{' '}
      {released === 0 ? 'No resources' : plural(released, 'resource')} verified gone
      {stuck > 0 ? `, ${plural(stuck, 'resource')} still present.` : '.'}
      {report !== undefined && deletesRecords(close.trigger) && deletedText(report)}
      {weakest}
    </>
  )
}

function deletedText({ cleanedAgentsCount, cleanedMessagesCount }: Report): string {
  return ` Deleted records: ${plural(cleanedAgentsCount, 'agent')} and ${plural(cleanedMessagesCount, 'message')}.`
}

/**
 * Shown for a close that was in progress when the server last answered. Its state is unknown: it may have continued, also after a crash.
 */
function UnknownState({ close }: { readonly close: CloseDetail }) {
  return (
    <div className="close__summary" role="status">
      <Badge tone="alarm">unknown</Badge>
      <p>
        Started at {moment(close.startedAt)}. Reason: {reasonOf(close)}. The close was in progress when the server last answered. If the
        server died, its sentinel or the next start finishes the close.
      </p>
    </div>
  )
}
