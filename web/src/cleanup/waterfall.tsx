import { type CSSProperties, type RefObject, useId, useState } from 'react'
import { useLabels } from '../api/labels.tsx'
import { Badge } from '../pieces/badge.tsx'
import { count, duration, oneLine, plainText, shortId, shortName } from '../pieces/format.ts'
import { type ScopeNames, useScopeNames } from './scope-names.ts'
import { endOf, type Group, groupsOf, isFinished, neededKill, type Piece, type Row, ticksOf } from './timeline.ts'
import { axisOf } from './use-frames.ts'
import { isWaiting, phases, phaseTexts, proofText, stateOf, stepTextsOf } from './words.ts'

export interface WaterfallProps {
  /** The element whose CSS variables `--now` and `--total` `useFrames` updates. */
  readonly container: RefObject<HTMLDivElement | null>
  readonly nowMs: number
  readonly rows: readonly Row[]
  readonly isRunning: boolean
}

/** With more groups than this, groups are folded unless they have a stuck or held-back resource. */
const unfoldedGroups = 4

/** Ticks beyond this share of the axis are left out: their labels would run into the next column. */
const lastTick = 0.94

/** The resources of a close on one time axis. It is a table, so that screen readers get the same facts as sentences. */
export function Waterfall({ container, nowMs, rows, isRunning }: WaterfallProps) {
  const groups = groupsOf(rows)
  const nameOfScope = useScopeNames(groups.map(({ kind, key }) => ({ kind, id: key })))
  const ends = rows.map((row) => endOf(row) ?? nowMs)
  const total = isRunning ? axisOf(nowMs) : Math.max(1, ...ends)
  const axis = { '--total': total, '--now': nowMs } as CSSProperties
  return (
    <div className="fall" ref={container} style={axis}>
      <table>
        <caption className="hidden">Each resource of this close: its steps and their durations, its outcome, and its proof.</caption>
        <thead>
          <tr>
            <th scope="col">Resource</th>
            <th scope="col" className="fall__axis">
              <span className="hidden">Steps</span>
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
            isUnfoldedInitially={
              groups.length <= unfoldedGroups || group.rows.some(({ state }) => state === 'stuck' || state === 'held-back')
            }
            nowMs={nowMs}
            nameOfScope={nameOfScope}
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
  readonly isUnfoldedInitially: boolean
  readonly nowMs: number
  readonly nameOfScope: ScopeNames
}

function GroupRows({ group, hasHead, isUnfoldedInitially, nowMs, nameOfScope }: GroupProps) {
  const [chosen, setChosen] = useState<boolean>()
  const isOpen = chosen ?? isUnfoldedInitially
  const releasedCount = group.rows.filter(({ state }) => state === 'released' || state === 'given-up').length
  const { text, isName } = nameOfScope({ kind: group.kind, id: group.key })
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
              {isName && <span className="fall__id"> {shortId(group.key)}</span>}
            </button>
          </th>
          <td className="fall__track">{!isOpen && slowest?.pieces.map((piece) => <Bar key={keyOf(piece)} piece={piece} />)}</td>
          <td className="fall__proof">
            {count(releasedCount)} of {count(group.rows.length)} verified gone
            {!isOpen && group.rows.some(neededKill) && (
              <>
                {' '}
                <KillNeeded />
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
  const steps = stepTextsOf(row, nowMs)
  const hintId = useId()
  const state = stateOf(row)
  const kind = useLabels().kindTitle(row.kind)
  const end = endOf(row)
  return (
    <tr className="fall__row">
      <th scope="row" className="fall__name">
        <button type="button" aria-describedby={hintId} className="fall__kind">
          {kind}
        </button>
        <span className="fall__what" title={plainText(row.name)}>
          {oneLine(shortName(row.name), 90)}
        </span>
      </th>
      <td className="fall__track">
        {row.pieces.map((piece) => (
          <Bar key={keyOf(piece)} piece={piece} />
        ))}
        {end !== undefined && isFinished(row.state) && !isWaiting(row) && (
          <span className={`fall__end fall__end--${state.tone}`} style={{ '--from': end } as CSSProperties} aria-hidden="true" />
        )}
        <span className="fall__hint" role="tooltip" id={hintId}>
          <strong>
            {kind} {oneLine(row.name, 120)}
          </strong>
          {steps.map(({ key, text }) => (
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
            <KillNeeded />;{' '}
          </>
        )}
        <ProofText row={row} />
      </td>
    </tr>
  )
}

function KillNeeded() {
  return <span className="fall__kill">kill needed</span>
}

function ProofText({ row: { proof, error, state } }: { readonly row: Row }) {
  if (proof)
    return (
      <span>
        {proofText(proof)}
        {error !== undefined && ` (${oneLine(error, 200)})`}
      </span>
    )
  if (isWaiting({ error })) return <span className="quiet">for resources that depend on it and are still present</span>
  if (error !== undefined) return <span className="fall__error">{oneLine(error, 300)}</span>
  return <span className="quiet">{isFinished(state) ? 'no proof' : 'not verified yet'}</span>
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
    <ul className="legend" aria-label="Legend">
      {phases
        .filter((phase) => used.has(phase))
        .map((phase) => (
          <li key={phase}>
            <span className={`legend__sign bar-piece--${phase}`} aria-hidden="true" />
            <span>
              <strong>{phaseTexts[phase].name}</strong> {phaseTexts[phase].does}
            </span>
          </li>
        ))}
    </ul>
  )
}
