import { useEffect, useMemo, useRef, useState } from 'react'
import { ApiError } from '../api/client.ts'
import { type CloseDetail, fetchClose, type ResourceProgress } from '../api/closes.ts'
import { useLive } from '../api/live.ts'
import { type Loaded, useLoaded } from '../api/loaded.ts'
import { type Row, rowsOf } from './timeline.ts'

export interface WatchedClose {
  readonly loaded: Loaded<CloseDetail>
  readonly close: CloseDetail | undefined
  readonly rows: readonly Row[]
  /** How far our clock is ahead of the server's. */
  readonly skewMs: number
}

/** Even without events it does not stand still for longer. */
const runningMs = 2_000

/** One close, as it is: what was fetched, and what has been told since; the report, once there is one. */
export function useClose(id: string): WatchedClose {
  const [isRunning, setRunning] = useState(true)
  const loaded = useLoaded(`close ${id}`, (signal) => fetchClose(id, signal), {
    on: ['cleanup:report'],
    fits: (event) => (event as { readonly id?: string }).id === id,
    ...(isRunning && { everyMs: runningMs }),
  })
  const close = loaded.data
  const isLost = isNowhere(loaded.error)
  useEffect(() => {
    // One that was under way when its server died is in nobody's history.
    if (close || isLost) setRunning(close?.state === 'running' && !isLost)
  }, [close, isLost])

  const told = useRef(new Map<string, ResourceProgress>())
  const frame = useRef<number | undefined>(undefined)
  const [live, setLive] = useState<ReadonlyMap<string, ResourceProgress>>(new Map())
  useLive<{ readonly id: string; readonly resource: ResourceProgress }>('cleanup:progress', (event) => {
    if (event.id !== id) return
    told.current.set(event.resource.id, event.resource)
    // Many come at once; they are shown at once.
    frame.current ??= requestAnimationFrame(() => {
      frame.current = undefined
      setLive(new Map(told.current))
    })
  })
  useEffect(
    () => () => {
      if (frame.current !== undefined) cancelAnimationFrame(frame.current)
    },
    [],
  )

  const rows = useMemo(() => {
    if (!close) return []
    const resources = close.report?.resources ?? merged(close.progress ?? [], live)
    return rowsOf(close.startedAt, resources, close.scope)
  }, [close, live])
  const { loadedAtMs } = loaded
  const skewMs = close?.state === 'running' && loadedAtMs !== undefined ? loadedAtMs - (Date.parse(close.startedAt) + close.duration) : 0
  return { loaded, close, rows, skewMs }
}

/** There is no such close, or its id can be nobody's: to ask again does not help. */
export function isNowhere(error: unknown): boolean {
  return error instanceof ApiError && (error.status === 404 || error.code === 'invalid_id')
}

/** Of each resource what is newer. */
function merged(fetched: readonly ResourceProgress[], live: ReadonlyMap<string, ResourceProgress>): readonly ResourceProgress[] {
  const known = new Map(fetched.map((one) => [one.id, one]))
  for (const [id, one] of live) {
    const before = known.get(id)
    if (!before || one.since >= before.since) known.set(id, one)
  }
  return [...known.values()]
}
