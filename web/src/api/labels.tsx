import { createContext, type ReactNode, useContext, useMemo } from 'react'
import { call } from './client.ts'
import { useLoaded } from './loaded.ts'

/** What the server says of its placements and of the kinds of resources, in `GET /api/placements`. The dashboard names none itself. */

export interface Placement {
  readonly name: string
  readonly title: string
  readonly isAvailable: boolean
  readonly isDefault: boolean
  /** Whether agents of this placement run on another host than the server. */
  readonly hasHost: boolean
}

export interface Kind {
  readonly name: string
  readonly title: string
  /** Whether the last step of releasing this kind ends running processes. For other kinds the last step only removes the resource. */
  readonly endsProcesses: boolean
  readonly isOnOtherHost: boolean
}

export interface Labels {
  /** All placements. Empty until the labels are loaded. */
  readonly placements: readonly Placement[]
  kind(name: string): Kind | undefined
  /** The title of a placement; its own name when the server does not know it, or has not answered yet. */
  placementTitle(name: string): string
  kindTitle(name: string): string
}

export function labelsOf({ placements, kinds }: { readonly placements: readonly Placement[]; readonly kinds: readonly Kind[] }): Labels {
  const placementsByName = new Map(placements.map((placement) => [placement.name, placement]))
  const kindsByName = new Map(kinds.map((kind) => [kind.name, kind]))
  return {
    placements,
    kind: (name) => kindsByName.get(name),
    placementTitle: (name) => placementsByName.get(name)?.title ?? name,
    kindTitle: (name) => kindsByName.get(name)?.title ?? name,
  }
}

const noLabels = labelsOf({ placements: [], kinds: [] })

const Context = createContext<Labels>(noLabels)

export function useLabels(): Labels {
  return useContext(Context)
}

/** Loads the labels once per connection: they change only with the server. */
export function LabelsProvider({ children }: { readonly children: ReactNode }) {
  const { data } = useLoaded('placements', (signal) => call<Parameters<typeof labelsOf>[0]>('GET', '/placements', { signal }))
  const labels = useMemo(() => (data ? labelsOf(data) : noLabels), [data])
  return <Context value={labels}>{children}</Context>
}
