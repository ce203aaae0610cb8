import type { CloseDetail } from '../api/closes.ts'
import type { Report } from '../api/shapes.ts'
import { Badge } from '../pieces/badge.tsx'
import { duration, moment, plural } from '../pieces/format.ts'
import { emptiesRecord, stageOf } from './stage.ts'
import { neededKill, type Row } from './timeline.ts'
import { whyOf } from './words.ts'

export interface SummaryProps {
  readonly close: CloseDetail
  readonly rows: readonly Row[]
  readonly isRunning: boolean
  /** How long it has been under way, by the clock of the bars below. */
  readonly nowMs: number
}

/** In one sentence: what happened, what it took, and who vouches for it. */
export function Summary({ close, rows, isRunning, nowMs }: SummaryProps) {
  if (close.state === 'running' && !isRunning) return <Unknown close={close} />
  const stage = stageOf(close, rows)
  return (
    <div className="close__summary">
      <div className="close__state" role="status">
        <Badge tone={isRunning ? 'wait' : close.success ? 'good' : 'alarm'}>{stage.badge}</Badge>
        {rows.some(neededKill) && <Badge tone="bad">needed a kill</Badge>}
      </div>
      <p>
        {isRunning ? (
          <>
            It began at {moment(close.startedAt)}, because {whyOf(close)}; <span className="close__clock">{duration(nowMs)}</span> so far.
            {stage.words}
          </>
        ) : (
          <Over close={close} rows={rows} />
        )}
      </p>
    </div>
  )
}

function Over({ close, rows }: Pick<SummaryProps, 'close' | 'rows'>) {
  const { released, stuck, report } = close
  const strengths = new Set(report?.resources.flatMap(({ proof }) => proof?.strength ?? []))
  const weakest = strengths.has('scan') ? ' One of the proofs is a scan, which can miss something.' : ''
  const killed = rows.filter(neededKill).length
  return (
    <>
      It began at {moment(close.startedAt)}, because {whyOf(close)}, and took {duration(close.duration)}.
      {killed > 0 && ` ${plural(killed, 'resource')} did not end when told to, and needed a kill.`}{' '}
      {released === 0 ? 'Nothing was' : plural(released, 'resource')} proven gone
      {stuck > 0 ? `, ${plural(stuck, 'resource')} still there.` : '.'}
      {report !== undefined && emptiesRecord(close.trigger) && deletedWords(report)}
      {weakest}
    </>
  )
}

function deletedWords({ cleanedAgentsCount, cleanedMessagesCount }: Report): string {
  return ` Deleted from the record: ${plural(cleanedAgentsCount, 'agent')} and ${plural(cleanedMessagesCount, 'message')}.`
}

/** It was under way when the server was last heard; a close goes on without those who watch it, and after a crash, too. */
function Unknown({ close }: { readonly close: CloseDetail }) {
  return (
    <div className="close__summary" role="status">
      <Badge tone="alarm">not known</Badge>
      <p>
        It began at {moment(close.startedAt)}, because {whyOf(close)}, and was under way when the server was last heard. What a server
        leaves when it dies is finished by its sentinel, or by the next start.
      </p>
    </div>
  )
}
