import { useSyncExternalStore } from 'react'
import { age, duration, moment } from './format.ts'

/** A single timer updates all ages on the page. It does nothing while the page is hidden. */

const listeners = new Set<() => void>()
let nowMs = Date.now()
let timer: ReturnType<typeof setInterval> | undefined

function tick(): void {
  if (document.visibilityState !== 'visible') return
  nowMs = Date.now()
  for (const listener of listeners) listener()
}

function listen(listener: () => void): () => void {
  listeners.add(listener)
  if (timer === undefined) {
    nowMs = Date.now()
    timer = setInterval(tick, 1_000)
    document.addEventListener('visibilitychange', tick)
  }
  return () => {
    listeners.delete(listener)
    if (listeners.size > 0) return
    clearInterval(timer)
    timer = undefined
    document.removeEventListener('visibilitychange', tick)
  }
}

export function useNow(): number {
  return useSyncExternalStore(listen, () => nowMs)
}

/** An age such as `3 min`, with the exact time as a tooltip. */
export function Age({ at }: { readonly at: string }) {
  const now = useNow()
  return (
    <time dateTime={at} title={moment(at)}>
      {age(Math.max(0, now - Date.parse(at)))}
    </time>
  )
}

/** The duration from one time to another, or until now. */
export function Lasting({ from, until }: { readonly from: string; readonly until?: string | undefined }) {
  const now = useNow()
  const end = until === undefined ? now : Date.parse(until)
  return (
    <span title={`${moment(from)} – ${until === undefined ? 'now' : moment(until)}`}>{duration(Math.max(0, end - Date.parse(from)))}</span>
  )
}
