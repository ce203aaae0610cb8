import type { SystemStatus } from '../api/closes.ts'
import { useLabels } from '../api/labels.tsx'
import { count } from '../pieces/format.ts'
import { type Column, DataTable } from '../pieces/table.tsx'
import { heldBackOf, isFailedListing, totalOf } from './verdict.ts'

interface KindCount {
  readonly kind: string
  readonly title: string
  readonly held: number
  readonly closing: number
  readonly stuck: number
}

const columns: readonly Column<KindCount>[] = [
  { name: 'Kind', isMain: true, cell: ({ title }) => title },
  { name: 'Held', isNumber: true, cell: ({ held }) => count(held) },
  { name: 'Closing', isNumber: true, cell: ({ closing }) => count(closing) },
  { name: 'Stuck', isNumber: true, cell: ({ stuck }) => count(stuck) },
]

export function Kinds({ status }: { readonly status: SystemStatus }) {
  const { kindTitle } = useLabels()
  const rows = Object.entries(status.resources)
    .map(([kind, counts]) => ({ kind, title: kindTitle(kind), ...counts }))
    .toSorted((a, b) => a.title.localeCompare(b.title))
  return rows.length > 0 ? <DataTable label="Resources by kind" columns={columns} rows={rows} keyOf={({ kind }) => kind} isNarrow /> : null
}

interface Figure {
  readonly name: string
  readonly value: number
  /** True if any value above zero is a problem. */
  readonly isBad?: boolean
}

/** The counts behind the verdict. Zeros are shown as well. */
export function Figures({ status, unreachableHosts }: { readonly status: SystemStatus; readonly unreachableHosts: readonly string[] }) {
  const failedListings = status.leaks.filter(isFailedListing).length
  const figures: readonly Figure[] = [
    { name: 'processes running', value: status.runningProcesses },
    { name: 'resources held', value: totalOf(status) },
    { name: 'agents recorded', value: status.agentCount },
    { name: 'messages recorded', value: status.messageCount },
    { name: 'subscriptions open', value: status.activeSubscriptions },
    { name: 'stuck', value: status.stuck.length, isBad: true },
    { name: 'held back', value: heldBackOf(status).blocked.length, isBad: true },
    { name: 'leaks', value: status.leaks.length - failedListings, isBad: true },
    { name: 'unreachable', value: failedListings + unreachableHosts.length, isBad: true },
  ]
  return (
    <dl className="figures">
      {figures.map(({ name, value, isBad }) => (
        <div key={name} className={`figures__item ${isBad ? (value > 0 ? 'figures__item--bad' : 'figures__item--none') : ''}`}>
          <dt>{name}</dt>
          <dd>{count(value)}</dd>
        </div>
      ))}
    </dl>
  )
}
