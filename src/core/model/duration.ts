import { EbbError } from './errors.ts'

const unitMs = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 } as const

/** The longest duration. In Node, a timer of more than 2^31-1 ms fires at once. */
const longestMs = 2_147_483_647

/** Reads `250ms`, `5s`, `2m`, `1h`. A number without a unit is refused, because its unit would be a guess. */
export function parseDuration(text: string, option: string): number {
  const match = /^(\d{1,10}(?:\.\d{1,3})?)(ms|s|m|h)$/.exec(text)
  const unit = match?.[2] as keyof typeof unitMs | undefined
  if (!match || !unit) throw new EbbError('bad_usage', `${option} must be a duration such as 250ms, 5s or 2m, not "${text}".`)
  const ms = Math.round(Number(match[1]) * unitMs[unit])
  if (ms > longestMs) throw new EbbError('bad_usage', `${option} must be a duration of 596h at most, not "${text}".`)
  return ms
}
