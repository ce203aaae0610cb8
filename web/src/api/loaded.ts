import { useCallback, useEffect, useRef, useState } from 'react'
import { isAbort, sentenceOf } from './client.ts'
import { onConnect, onLive } from './live.ts'
import { paced } from './pace.ts'
import { isTokenWanted, onToken } from './token.ts'

export interface Loaded<T> {
  readonly data: T | undefined
  /** Why the last attempt brought nothing; what was there before stays. */
  readonly error: unknown
  readonly sentence: string | undefined
  readonly loadedAtMs: number | undefined
  reload(): void
}

export interface LoadingOptions {
  /** Again after so long, while somebody can see the page. */
  readonly everyMs?: number
  /** Again when one of these events comes. */
  readonly on?: readonly string[]
  /** Of those only the ones that fit. */
  readonly fits?: (event: unknown) => boolean
  readonly isOff?: boolean
}

/**
 * What the server says, kept true: fetched at the start, whenever the live connection is there anew, by events (with a pause between two) and by the
 * clock. One question at a time; what is asked meanwhile is asked once more afterwards. `key` names what is asked for: another key
 * is another question.
 */
export function useLoaded<T>(key: string, load: (signal: AbortSignal) => Promise<T>, options: LoadingOptions = {}): Loaded<T> {
  const { everyMs, on = [], isOff = false } = options
  const [held, setHeld] = useState<{ key: string; data?: T; error?: unknown; loadedAtMs?: number }>({ key })
  const latest = useRef({ load, fits: options.fits })
  useEffect(() => {
    latest.current = { load, fits: options.fits }
  })
  const ask = useRef<() => void>(() => {})
  const events = on.join(' ')

  useEffect(() => {
    if (isOff) return undefined
    const over = new AbortController()
    let timer: ReturnType<typeof setTimeout> | undefined

    const pace = paced(async () => {
      clearTimeout(timer)
      try {
        const data = await latest.current.load(over.signal)
        if (!over.signal.aborted) setHeld({ key, data, loadedAtMs: Date.now() })
      } catch (error) {
        if (!over.signal.aborted && !isAbort(error)) setHeld((known) => (known.key === key ? { ...known, error } : { key, error }))
      }
      if (!over.signal.aborted && everyMs !== undefined) timer = setTimeout(tick, everyMs)
    })
    const tick = (): void => {
      if (document.visibilityState === 'visible') pace.now()
    }
    const whenSeen = (): void => {
      if (everyMs !== undefined) tick()
    }
    const hear = (event: unknown): void => {
      if (latest.current.fits?.(event) ?? true) pace.soon()
    }

    ask.current = pace.now
    pace.now()
    document.addEventListener('visibilitychange', whenSeen)
    const whenGiven = (): void => {
      if (!isTokenWanted()) pace.now()
    }
    const ends = [
      onConnect(pace.now),
      onToken(whenGiven),
      ...events
        .split(' ')
        .filter(Boolean)
        .map((name) => onLive(name, hear)),
    ]
    return () => {
      over.abort()
      pace.stop()
      clearTimeout(timer)
      document.removeEventListener('visibilitychange', whenSeen)
      for (const end of ends) end()
    }
  }, [key, everyMs, events, isOff])

  const reload = useCallback(() => ask.current(), [])
  const own = held.key === key ? held : { key }
  return {
    data: own.data,
    error: own.error,
    sentence: own.error === undefined ? undefined : sentenceOf(own.error),
    loadedAtMs: own.loadedAtMs,
    reload,
  }
}
