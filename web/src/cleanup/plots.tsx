import { type KeyboardEvent, type PointerEvent, type ReactNode, useState } from 'react'
import type { Close } from '../api/closes.ts'
import { duration, moment, plural } from '../pieces/format.ts'
import { go } from '../routing.ts'
import { bucketsOf, countLevels, type EscalationLevel, escalationLevels, logScale, type Measured, percentile } from './plot-model.ts'
import type { ScopeNames } from './scope-names.ts'

const width = 560
const height = 150
const left = 70
const bottom = 16
const top = 10
/** The margin right of the points, for the labels of the lines. Over the points, labels would hide the newest ones. */
const right = 82
const inner = { width: width - left - right, height: height - top - bottom }
const mostBuckets = 28

/** Two plots of the closes, newest at the right: how long they took, and how many had to escalate. */
export function Plots({ closes, nameOfScope }: { readonly closes: readonly Close[]; readonly nameOfScope: ScopeNames }) {
  const done = closes.filter(({ state }) => state === 'done').toReversed()
  if (done.length < 2) return null
  return (
    <div className="plots">
      <TimeToClean closes={done} nameOfScope={nameOfScope} />
      <Escalations closes={done} />
    </div>
  )
}

function TimeToClean({ closes, nameOfScope }: { readonly closes: readonly Close[]; readonly nameOfScope: ScopeNames }) {
  const times = closes.map(({ duration: took }) => took)
  const scale = logScale(times)
  const median = percentile(times, 0.5) ?? 0
  const p95 = percentile(times, 0.95) ?? 0
  const summary = `Median duration of the last ${plural(closes.length, 'close')} with resources: ${duration(median)}. 95th percentile: ${duration(p95)}.`
  const x = (index: number): number => left + ((index + 0.5) / closes.length) * inner.width
  const y = (ms: number): number => top + (1 - scale.place(ms)) * inner.height
  return (
    <Plot
      title="Time to clean"
      summary={summary}
      count={closes.length}
      x={x}
      describe={(index) => {
        const close = closes[index]
        return (
          close &&
          `${nameOfScope(close.scope).text} at ${moment(close.startedAt)}: ${duration(close.duration)}, ${close.success ? 'clean' : 'not clean'}`
        )
      }}
      open={(index) => go('cleanup', closes[index]?.id)}
    >
      {scale.marks.map((mark) => (
        <g key={mark}>
          <line className="plot__line" x1={left} x2={width - right} y1={y(mark)} y2={y(mark)} />
          <text className="plot__mark" x={left - 8} y={y(mark) + 4} textAnchor="end">
            {markText(mark)}
          </text>
        </g>
      ))}
      <line className="plot__median" x1={left} x2={width - right} y1={y(median)} y2={y(median)} />
      <line className="plot__p95" x1={left} x2={width - right} y1={y(p95)} y2={y(p95)} />
      {closes.map((close, index) =>
        close.success ? (
          <circle key={close.id} className="plot__good" cx={x(index)} cy={y(close.duration)} r={2.8} />
        ) : (
          <path key={close.id} className="plot__bad" d={`M${x(index)} ${y(close.duration) - 5}l5 9h-10z`} />
        ),
      )}
      <text className="plot__label" x={width - right + 6} y={y(median) + 11}>
        median
      </text>
      <text className="plot__label" x={width - right + 6} y={y(p95) - 3}>
        95%
      </text>
    </Plot>
  )
}

const markText = (ms: number): string => (ms < 1_000 ? `${ms} ms` : `${ms / 1_000} s`)

function Escalations({ closes }: { readonly closes: readonly Measured[] }) {
  const buckets = bucketsOf(closes, mostBuckets)
  const { terminated, killed, failed } = countLevels(closes)
  const tallest = Math.max(1, ...buckets.map(({ total }) => total))
  const slot = inner.width / buckets.length
  const summary = `Of the last ${plural(closes.length, 'close')} with resources, ${failed} ${failed === 1 ? 'was' : 'were'} not clean, ${terminated} had to be terminated after the polite step, and ${killed} had to be killed.`
  const y = (value: number): number => top + (1 - value / tallest) * inner.height
  return (
    <Plot
      title="Escalations"
      summary={summary}
      keys={escalationLevels
        .filter((level) => level !== 'failed' || failed > 0)
        .map((level) => ({ name: level, meaning: levelTexts[level] }))}
      count={buckets.length}
      x={(index) => left + (index + 0.5) * slot}
      describe={(index) => {
        const bucket = buckets[index]
        return (
          bucket &&
          `${moment(bucket.from)}: ${plural(bucket.total, 'close')}, ${bucket.terminated} terminated, ${bucket.killed} killed, ${bucket.failed} not clean`
        )
      }}
    >
      {[0, tallest].map((mark) => (
        <g key={mark}>
          <line className="plot__line" x1={left} x2={width - right} y1={y(mark)} y2={y(mark)} />
          <text className="plot__mark" x={left - 8} y={y(mark) + 4} textAnchor="end">
            {mark}
          </text>
        </g>
      ))}
      {buckets.map((bucket, index) => (
        <g key={`${bucket.from} ${String(index)}`}>
          {escalationLevels.map((level, place) => {
            // The worst level is at the bottom of the bar.
            const below = escalationLevels.slice(place + 1).reduce((sum, worse) => sum + bucket[worse], 0)
            const at = { x: left + index * slot + slot * 0.15, y: y(below + bucket[level]) }
            return (
              bucket[level] > 0 && <rect key={level} className={`plot__${level}`} {...at} width={slot * 0.7} height={y(below) - at.y} />
            )
          })}
        </g>
      ))}
    </Plot>
  )
}

const levelTexts: Readonly<Record<EscalationLevel, string>> = {
  unescalated: 'the first step was enough (in a forced close or a recovery, the first step is a kill)',
  terminated: 'terminated: the polite step was not enough',
  killed: 'killed: gentler steps were not enough',
  failed: 'not clean',
}

interface PlotProps {
  readonly title: string
  /** The whole plot in a sentence. */
  readonly summary: string
  readonly count: number
  readonly x: (index: number) => number
  readonly describe: (index: number) => string | undefined
  readonly open?: (index: number) => void
  /** The legend: the meaning of each colour. */
  readonly keys?: readonly { readonly name: string; readonly meaning: string }[]
  readonly children: ReactNode
}

/** A plot with a summary. The pointer or the arrow keys select a value, which is then described instead. */
function Plot({ title, summary, count, x, describe, open, keys = [], children }: PlotProps) {
  const [at, setAt] = useState<number>()
  const chosen = at === undefined ? undefined : Math.min(at, count - 1)
  const hover = (event: PointerEvent<SVGSVGElement>): void => {
    const box = event.currentTarget.getBoundingClientRect()
    const place = ((event.clientX - box.left) / box.width) * width
    const index = Math.floor(((place - left) / inner.width) * count)
    setAt(index >= 0 && index < count ? index : undefined)
  }
  const press = (event: KeyboardEvent): void => {
    const from = chosen ?? (event.key === 'ArrowLeft' ? count : -1)
    const next = { ArrowLeft: from - 1, ArrowRight: from + 1, Home: 0, End: count - 1 }[event.key]
    if (next !== undefined) {
      event.preventDefault()
      setAt(Math.min(count - 1, Math.max(0, next)))
    } else if (event.key === 'Escape') setAt(undefined)
    else if (event.key === 'Enter' && chosen !== undefined) open?.(chosen)
  }
  return (
    <figure className="panel plot" aria-label={title}>
      <figcaption className="panel__head">
        <h2>{title}</h2>
      </figcaption>
      <div
        className="plot__body"
        role="slider"
        tabIndex={0}
        aria-label={`${title}. ${summary}`}
        aria-valuemin={1}
        aria-valuemax={count}
        aria-valuenow={(chosen ?? 0) + 1}
        aria-valuetext={chosen === undefined ? summary : describe(chosen)}
        onKeyDown={press}
        onBlur={() => setAt(undefined)}
      >
        <svg
          viewBox={`0 0 ${width} ${height}`}
          aria-hidden="true"
          focusable="false"
          onPointerMove={hover}
          onPointerLeave={() => setAt(undefined)}
          onClick={() => chosen !== undefined && open?.(chosen)}
        >
          {children}
          {chosen !== undefined && <line className="plot__cursor" x1={x(chosen)} x2={x(chosen)} y1={top} y2={height - bottom} />}
        </svg>
      </div>
      {keys.length > 0 && (
        <ul className="plot__keys" aria-label="Legend">
          {keys.map(({ name, meaning }) => (
            <li key={name}>
              <svg width="10" height="10" aria-hidden="true" focusable="false">
                <rect width="10" height="10" rx="2" className={`plot__${name}`} />
              </svg>
              {meaning}
            </li>
          ))}
        </ul>
      )}
      <p className="plot__text">{chosen === undefined ? summary : describe(chosen)}</p>
    </figure>
  )
}
