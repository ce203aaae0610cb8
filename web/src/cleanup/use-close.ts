import { useEffect, useMemo, useRef, useState } from 'react'
import { ApiError } from '../api/client.ts'
import { type CloseDetail, fetchClose, type ResourceProgress } from '../api/closes.ts'
import { useLabels } from '../api/labels.tsx'
import { useLive } from '../api/live.ts'
import { type Loaded, useLoaded } from '../api/loaded.ts'
import { type Row, rowsOf } from './timeline.ts'

export interface WatchedClose {
  readonly loaded: Loaded<CloseDetail>
  readonly close: CloseDetail | undefined
  readonly rows: readonly Row[]
  /** How far this browser's clock is ahead of the server's. */
  readonly skewMs: number
}

/** The poll interval while the close is in progress, in case events are missed. */
const runningMs = 2_000

/** Loads and follows one close: the fetched state merged with the live progress events, or the report once there is one. */
export function useClose(id: string): WatchedClose {
  const labels = useLabels()
  const [isRunning, setRunning] = useState(true)
  const loaded = useLoaded(`close ${id}`, (signal) => fetchClose(id, signal), {
    on: ['cleanup:report'],
    fits: (event) => (event as { readonly id?: string }).id === id,
    ...(isRunning && { everyMs: runningMs }),
  })
  const close = loaded.data
  const isLost = isNotFound(loaded.error)
  useEffect(() => {
    // A close that was in progress when its server died is not in the history of the next server.
    if (close || isLost) setRunning(close?.state === 'running' && !isLost)
  }, [close, isLost])

  const received = useRef(new Map<string, ResourceProgress>())
  const frame = useRef<number | undefined>(undefined)
  const [live, setLive] = useState<ReadonlyMap<string, ResourceProgress>>(new Map())
  useLive<{ readonly id: string; readonly resource: ResourceProgress }>('cleanup:progress', (event) => {
    if (event.id !== id) return
    received.current.set(event.resource.id, event.resource)
    // Many events may arrive in one frame; they cause one render.
    frame.current ??= requestAnimationFrame(() => {
      frame.current = undefined
      setLive(new Map(received.current))
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
    return rowsOf(close.startedAt, resources, close.scope, (kind) => labels.kind(kind)?.endsProcesses ?? false)
  }, [close, live, labels])
  const { loadedAtMs } = loaded
  const skewMs = close?.state === 'running' && loadedAtMs !== undefined ? loadedAtMs - (Date.parse(close.startedAt) + close.duration) : 0
  return { loaded, close, rows, skewMs }
}

/** True if the close does not exist, or the id is not valid. A retry would not help. */
export function isNotFound(error: unknown): boolean {
  return error instanceof ApiError && (error.status === 404 || error.code === 'invalid_id')
}

/** For each resource, the newer one of the fetched and the live progress. */
function merged(fetched: readonly ResourceProgress[], live: ReadonlyMap<string, ResourceProgress>): readonly ResourceProgress[] {
  const known = new Map(fetched.map((resource) => [resource.id, resource]))
  for (const [id, resource] of live) {
    const before = known.get(id)
    if (!before || resource.since >= before.since) known.set(id, resource)
  }
  return [...known.values()]
}
