import { useNow } from './age.tsx'
import { age, moment } from './format.ts'

/** `3 min ago`, `just now`, and the moment itself for who asks. */
export function Ago({ at }: { readonly at: string | number }) {
  const passed = Math.max(0, useNow() - new Date(at).getTime())
  return (
    <time dateTime={new Date(at).toISOString()} title={moment(at)}>
      {passed < 1_000 ? 'just now' : `${age(passed)} ago`}
    </time>
  )
}
