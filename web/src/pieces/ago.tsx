import { useNow } from './age.tsx'
import { age, moment } from './format.ts'

/** An age such as `3 min ago` or `just now`, with the exact time as a tooltip. */
export function Ago({ at }: { readonly at: string | number }) {
  const elapsedMs = Math.max(0, useNow() - new Date(at).getTime())
  return (
    <time dateTime={new Date(at).toISOString()} title={moment(at)}>
      {elapsedMs < 1_000 ? 'just now' : `${age(elapsedMs)} ago`}
    </time>
  )
}
