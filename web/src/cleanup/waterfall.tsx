import { type CSSProperties, type RefObject, useId, useState } from 'react'
import { Badge } from '../pieces/badge.tsx'
import { count, duration, oneLine, plainText, shortId, shortName } from '../pieces/format.ts'
import { type Calling, useCalling } from './calling.ts'
import { endOf, type Group, groupsOf, isOver, neededKill, type Piece, type Row, ticksOf } from './timeline.ts'
import { axisOf } from './use-frames.ts'
import { isWaiting, phases, phaseWords, proofWords, stateOf, storyOf } from './words.ts'

export interface WaterfallProps {
  /** Whose `--now` and `--total` follow the clock that `nowMs` tells in steps. */
  readonly place: RefObject<HTMLDivElement | null>
  readonly nowMs: number
  readonly rows: readonly Row[]
  readonly isRunning: boolean
}

/** More agents than this are folded, but for those with something that stays. */
const unfoldedGroups = 4

/** A tick further right would run into the next column. */
const lastTick = 0.94

/** A close, resource by resource, on one time axis. It is a table: the bars are what its sentences look like. */
export function Waterfall({ place, nowMs, rows, isRunning }: WaterfallProps) {
  const groups = groupsOf(rows)
  const calling = useCalling(groups.map(({ kind, key }) => ({ kind, id: key })))
  const ends = rows.map((row) => endOf(row) ?? nowMs)
  const total = isRunning ? axisOf(nowMs) : Math.max(1, ...ends)
  const axis = { '--total': total, '--now': nowMs } as CSSProperties
  return (
    <div className="fall" ref={place} style={axis}>
      <table>
        <caption className="hidden">
          Each resource of this close: what was done about it and for how long, how it ended, and what proves it.
        </caption>
        <thead>
          <tr>
            <th scope="col">Resource</th>
            <th scope="col" className="fall__axis">
              <span className="hidden">What was done</span>
              {ticksOf(total)
                .filter((tick) => tick <= total * lastTick)
                .map((tick) => (
                  <span key={tick} className="fall__tick" style={{ '--from': tick } as CSSProperties} aria-hidden="true">
                    {duration(tick)}
                  </span>
                ))}
            </th>
            <th scope="col">Proof</th>
          </tr>
        </thead>
        {groups.map((group) => (
          <GroupRows
            key={`${group.kind} ${group.key}`}
            group={group}
            hasHead={groups.length > 1}
            isUnfolded={groups.length <= unfoldedGroups || group.rows.some(({ state }) => state === 'stuck' || state === 'held-back')}
            nowMs={nowMs}
            calling={calling}
          />
        ))}
      </table>
      <Legend rows={rows} />
    </div>
  )
}

interface GroupProps {
  readonly group: Group
  readonly hasHead: boolean
  readonly isUnfolded: boolean
  readonly nowMs: number
  readonly calling: Calling
}

function GroupRows({ group, hasHead, isUnfolded, nowMs, calling }: GroupProps) {
  const [chosen, setChosen] = useState<boolean>()
  const isOpen = chosen ?? isUnfolded
  const gone = group.rows.filter(({ state }) => state === 'released' || state === 'given-up').length
  const { text, isName } = calling({ kind: group.kind, id: group.key })
  const slowest = group.rows.toSorted((a, b) => busyMs(b, nowMs) - busyMs(a, nowMs))[0]
  return (
    <tbody>
      {hasHead && (
        <tr className="fall__group">
          <th scope="rowgroup" className="fall__name">
            <button type="button" aria-expanded={isOpen} onClick={() => setChosen(!isOpen)}>
              <span className="fall__fold" aria-hidden="true">
                {isOpen ? '▾' : '▸'}
              </span>
              {oneLine(text, 90)}
              {isName && <span className="fall__whose"> {shortId(group.key)}</span>}
            </button>
          </th>
          <td className="fall__track">{!isOpen && slowest?.pieces.map((piece) => <Bar key={keyOf(piece)} piece={piece} />)}</td>
          <td className="fall__proof">
            {count(gone)} of {count(group.rows.length)} proven gone
            {!isOpen && group.rows.some(neededKill) && (
              <>
                {' '}
                <NeededKill />
              </>
            )}
          </td>
        </tr>
      )}
      {(isOpen || !hasHead) && group.rows.map((row) => <ResourceRow key={row.key} row={row} nowMs={nowMs} />)}
    </tbody>
  )
}

function busyMs({ pieces }: Row, nowMs: number): number {
  return pieces.reduce((sum, { phase, fromMs, toMs }) => (phase === 'waiting' ? sum : sum + (toMs ?? nowMs) - fromMs), 0)
}

const keyOf = ({ phase, fromMs }: Piece): string => `${phase} ${fromMs}`

function ResourceRow({ row, nowMs }: { readonly row: Row; readonly nowMs: number }) {
  const story = storyOf(row, nowMs)
  const hint = useId()
  const state = stateOf(row)
  const end = endOf(row)
  return (
    <tr className="fall__row">
      <th scope="row" className="fall__name">
        <button type="button" aria-describedby={hint} className="fall__kind">
          {row.kind}
        </button>
        <span className="fall__what" title={plainText(row.name)}>
          {oneLine(shortName(row.name), 90)}
        </span>
      </th>
      <td className="fall__track">
        {row.pieces.map((piece) => (
          <Bar key={keyOf(piece)} piece={piece} />
        ))}
        {end !== undefined && isOver(row.state) && !isWaiting(row) && (
          <span className={`fall__end fall__end--${state.tone}`} style={{ '--from': end } as CSSProperties} aria-hidden="true" />
        )}
        <span className="fall__hint" role="tooltip" id={hint}>
          <strong>
            {row.kind} {oneLine(row.name, 120)}
          </strong>
          {story.map(({ key, text }) => (
            <span key={key}>{text}</span>
          ))}
          {[...new Set(row.notes)].map((note) => (
            <span key={note}>Note: {oneLine(note, 300)}</span>
          ))}
        </span>
      </td>
      <td className="fall__proof">
        <Badge tone={state.tone}>{state.text}</Badge>{' '}
        {neededKill(row) && (
          <>
            <NeededKill />;{' '}
          </>
        )}
        <Why row={row} />
      </td>
    </tr>
  )
}

function NeededKill() {
  return <span className="fall__kill">needed a kill</span>
}

function Why({ row: { proof, error, state } }: { readonly row: Row }) {
  if (proof)
    return (
      <span>
        {proofWords(proof)}
        {error !== undefined && ` (${oneLine(error, 200)})`}
      </span>
    )
  if (isWaiting({ error })) return <span className="quiet">for what depends on it, and is still there</span>
  if (error !== undefined) return <span className="fall__error">{oneLine(error, 300)}</span>
  return <span className="quiet">{isOver(state) ? 'no proof' : 'not proven yet'}</span>
}

function Bar({ piece: { phase, fromMs, toMs } }: { readonly piece: Piece }) {
  const span: Record<string, number> = toMs === undefined ? { '--from': fromMs } : { '--from': fromMs, '--to': toMs }
  const style: CSSProperties = span
  return (
    <span className={`bar-piece bar-piece--${phase} ${toMs === undefined ? 'bar-piece--open' : ''}`} style={style} aria-hidden="true" />
  )
}

function Legend({ rows }: { readonly rows: readonly Row[] }) {
  const used = new Set(rows.flatMap(({ pieces }) => pieces.map(({ phase }) => phase)))
  return (
    <ul className="legend" aria-label="What the bars mean">
      {phases
        .filter((phase) => used.has(phase))
        .map((phase) => (
          <li key={phase}>
            <span className={`legend__sign bar-piece--${phase}`} aria-hidden="true" />
            <span>
              <strong>{phaseWords[phase].name}</strong> {phaseWords[phase].does}
            </span>
          </li>
        ))}
    </ul>
  )
}
