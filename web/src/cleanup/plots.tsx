import { type KeyboardEvent, type PointerEvent, type ReactNode, useState } from 'react'
import type { Close } from '../api/closes.ts'
import { duration, moment, plural } from '../pieces/format.ts'
import { go } from '../routing.ts'
import type { Calling } from './calling.ts'
import { bucketsOf, countFates, type Fate, fates, logScale, type Measured, percentile } from './plot-model.ts'

const width = 560
const height = 150
const left = 70
const bottom = 16
const top = 10
/** Beside the points, for the names of the lines: on them they would hide the newest. */
const right = 82
const inner = { width: width - left - right, height: height - top - bottom }
const mostBuckets = 28

/** How long closes took, and how many needed more than a word; the newest at the right. */
export function Plots({ closes, calling }: { readonly closes: readonly Close[]; readonly calling: Calling }) {
  const done = closes.filter(({ state }) => state === 'done').toReversed()
  if (done.length < 2) return null
  return (
    <div className="plots">
      <TimeToClean closes={done} calling={calling} />
      <Escalations closes={done} />
    </div>
  )
}

function TimeToClean({ closes, calling }: { readonly closes: readonly Close[]; readonly calling: Calling }) {
  const times = closes.map(({ duration: took }) => took)
  const scale = logScale(times)
  const half = percentile(times, 0.5) ?? 0
  const most = percentile(times, 0.95) ?? 0
  const words = `Half of the last ${plural(closes.length, 'close')} that had something to take away took at most ${duration(half)}, 95 of 100 at most ${duration(most)}.`
  const x = (index: number): number => left + ((index + 0.5) / closes.length) * inner.width
  const y = (ms: number): number => top + (1 - scale.place(ms)) * inner.height
  return (
    <Plot
      title="Time to clean"
      words={words}
      count={closes.length}
      x={x}
      tell={(index) => {
        const close = closes[index]
        return (
          close &&
          `${calling(close.scope).text} at ${moment(close.startedAt)}: ${duration(close.duration)}, ${close.success ? 'clean' : 'not clean'}`
        )
      }}
      open={(index) => go('cleanup', closes[index]?.id)}
    >
      {scale.marks.map((mark) => (
        <g key={mark}>
          <line className="plot__line" x1={left} x2={width - right} y1={y(mark)} y2={y(mark)} />
          <text className="plot__mark" x={left - 8} y={y(mark) + 4} textAnchor="end">
            {markWords(mark)}
          </text>
        </g>
      ))}
      <line className="plot__half" x1={left} x2={width - right} y1={y(half)} y2={y(half)} />
      <line className="plot__most" x1={left} x2={width - right} y1={y(most)} y2={y(most)} />
      {closes.map((close, index) =>
        close.success ? (
          <circle key={close.id} className="plot__good" cx={x(index)} cy={y(close.duration)} r={2.8} />
        ) : (
          <path key={close.id} className="plot__bad" d={`M${x(index)} ${y(close.duration) - 5}l5 9h-10z`} />
        ),
      )}
      <text className="plot__label" x={width - right + 6} y={y(half) + 11}>
        half
      </text>
      <text className="plot__label" x={width - right + 6} y={y(most) - 3}>
        95 of 100
      </text>
    </Plot>
  )
}

const markWords = (ms: number): string => (ms < 1_000 ? `${ms} ms` : `${ms / 1_000} s`)

function Escalations({ closes }: { readonly closes: readonly Measured[] }) {
  const buckets = bucketsOf(closes, mostBuckets)
  const { told, killed, failed } = countFates(closes)
  const tallest = Math.max(1, ...buckets.map(({ total }) => total))
  const slot = inner.width / buckets.length
  const words = `Of the last ${plural(closes.length, 'close')} that had something to take away, ${failed} ${failed === 1 ? 'was' : 'were'} not clean, ${told} needed to be told to end after a polite word, and ${killed} a kill.`
  const y = (value: number): number => top + (1 - value / tallest) * inner.height
  return (
    <Plot
      title="Escalations"
      words={words}
      keys={fates.filter((fate) => fate !== 'failed' || failed > 0).map((fate) => ({ name: fate, words: fateWords[fate] }))}
      count={buckets.length}
      x={(index) => left + (index + 0.5) * slot}
      tell={(index) => {
        const bucket = buckets[index]
        return (
          bucket &&
          `${moment(bucket.from)}: ${plural(bucket.total, 'close')}, ${bucket.told} told to end, ${bucket.killed} killed, ${bucket.failed} not clean`
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
          {fates.map((fate, place) => {
            // What is worst stands at the bottom.
            const below = fates.slice(place + 1).reduce((sum, one) => sum + bucket[one], 0)
            const at = { x: left + index * slot + slot * 0.15, y: y(below + bucket[fate]) }
            return bucket[fate] > 0 && <rect key={fate} className={`plot__${fate}`} {...at} width={slot * 0.7} height={y(below) - at.y} />
          })}
        </g>
      ))}
    </Plot>
  )
}

const fateWords: Readonly<Record<Fate, string>> = {
  calm: 'the first step was enough (by force, and after a crash, that is a kill)',
  told: 'told to end, as a polite word was not enough',
  killed: 'killed, as nothing gentler was enough',
  failed: 'not clean',
}

interface PlotProps {
  readonly title: string
  /** The whole plot, in a sentence. */
  readonly words: string
  readonly count: number
  readonly x: (index: number) => number
  readonly tell: (index: number) => string | undefined
  readonly open?: (index: number) => void
  /** What its colours mean. */
  readonly keys?: readonly { readonly name: string; readonly words: string }[]
  readonly children: ReactNode
}

/** A picture with a sentence. With the pointer or the arrow keys one goes from value to value, and is told each. */
function Plot({ title, words, count, x, tell, open, keys = [], children }: PlotProps) {
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
        aria-label={`${title}. ${words}`}
        aria-valuemin={1}
        aria-valuemax={count}
        aria-valuenow={(chosen ?? 0) + 1}
        aria-valuetext={chosen === undefined ? words : tell(chosen)}
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
        <ul className="plot__keys" aria-label="What the colours mean">
          {keys.map(({ name, words: meaning }) => (
            <li key={name}>
              <svg width="10" height="10" aria-hidden="true" focusable="false">
                <rect width="10" height="10" rx="2" className={`plot__${name}`} />
              </svg>
              {meaning}
            </li>
          ))}
        </ul>
      )}
      <p className="plot__words">{chosen === undefined ? words : tell(chosen)}</p>
    </figure>
  )
}
