import { useCallback, useEffect, useRef, useState } from 'react'
import { isAbort, sentenceOf } from './client.ts'
import { onConnect, onLive } from './live.ts'
import { paced } from './pace.ts'
import { isTokenWanted, onToken } from './token.ts'

export interface Loaded<T> {
  readonly data: T | undefined
  /** The error of the last attempt, if it failed. `data` keeps the result of an earlier one. */
  readonly error: unknown
  readonly sentence: string | undefined
  readonly loadedAtMs: number | undefined
  reload(): void
}

export interface LoadingOptions {
  /** The data is loaded again after this time, while the page is visible. */
  readonly everyMs?: number
  /** The data is loaded again on events of these names. */
  readonly on?: readonly string[]
  /** Returns false for events that must not cause a load. */
  readonly fits?: (event: unknown) => boolean
  /** While true, no data is loaded. */
  readonly isPaused?: boolean
}

/**
 * Loads data from the server and keeps it current. It loads at the start, after every connect of the live connection, on events
 * (with a pause between two loads), and periodically. Only one load runs at a time; requests during a load cause one more load
 * afterwards. `key` identifies the data: a new key discards the data of the old one.
 */
export function useLoaded<T>(key: string, load: (signal: AbortSignal) => Promise<T>, options: LoadingOptions = {}): Loaded<T> {
  const { everyMs, on = [], isPaused = false } = options
  const [held, setHeld] = useState<{ key: string; data?: T; error?: unknown; loadedAtMs?: number }>({ key })
  const latest = useRef({ load, fits: options.fits })
  useEffect(() => {
    latest.current = { load, fits: options.fits }
  })
  const requestLoad = useRef<() => void>(() => {})
  const events = on.join(' ')

  useEffect(() => {
    if (isPaused) return undefined
    const unmounted = new AbortController()
    let timer: ReturnType<typeof setTimeout> | undefined

    const pace = paced(async () => {
      clearTimeout(timer)
      try {
        const data = await latest.current.load(unmounted.signal)
        if (!unmounted.signal.aborted) setHeld({ key, data, loadedAtMs: Date.now() })
      } catch (error) {
        if (!unmounted.signal.aborted && !isAbort(error)) setHeld((known) => (known.key === key ? { ...known, error } : { key, error }))
      }
      if (!unmounted.signal.aborted && everyMs !== undefined) timer = setTimeout(tick, everyMs)
    })
    const tick = (): void => {
      if (document.visibilityState === 'visible') pace.now()
    }
    const onVisibilityChange = (): void => {
      if (everyMs !== undefined) tick()
    }
    const onEvent = (event: unknown): void => {
      if (latest.current.fits?.(event) ?? true) pace.soon()
    }

    requestLoad.current = pace.now
    pace.now()
    document.addEventListener('visibilitychange', onVisibilityChange)
    const onTokenChange = (): void => {
      if (!isTokenWanted()) pace.now()
    }
    const unsubscribes = [
      onConnect(pace.now),
      onToken(onTokenChange),
      ...events
        .split(' ')
        .filter(Boolean)
        .map((name) => onLive(name, onEvent)),
    ]
    return () => {
      unmounted.abort()
      pace.stop()
      clearTimeout(timer)
      document.removeEventListener('visibilitychange', onVisibilityChange)
      for (const unsubscribe of unsubscribes) unsubscribe()
    }
  }, [key, everyMs, events, isPaused])

  const reload = useCallback(() => requestLoad.current(), [])
  const own = held.key === key ? held : { key }
  return {
    data: own.data,
    error: own.error,
    sentence: own.error === undefined ? undefined : sentenceOf(own.error),
    loadedAtMs: own.loadedAtMs,
    reload,
  }
}
