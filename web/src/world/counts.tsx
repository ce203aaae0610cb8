import type { WorldStatus } from '../api/closes.ts'
import { count } from '../pieces/format.ts'
import { type Column, DataTable } from '../pieces/table.tsx'
import { heldBackOf, isUnreachable, totalOf } from './verdict.ts'

interface KindCount {
  readonly kind: string
  readonly held: number
  readonly closing: number
  readonly stuck: number
}

const columns: readonly Column<KindCount>[] = [
  { name: 'Kind', isMain: true, cell: ({ kind }) => kind },
  { name: 'Held', isNumber: true, cell: ({ held }) => count(held) },
  { name: 'Closing', isNumber: true, cell: ({ closing }) => count(closing) },
  { name: 'Stuck', isNumber: true, cell: ({ stuck }) => count(stuck) },
]

export function Kinds({ status }: { readonly status: WorldStatus }) {
  const rows = Object.entries(status.resources)
    .map(([kind, counts]) => ({ kind, ...counts }))
    .toSorted((a, b) => a.kind.localeCompare(b.kind))
  return rows.length > 0 ? <DataTable label="Resources by kind" columns={columns} rows={rows} keyOf={({ kind }) => kind} isNarrow /> : null
}

interface Figure {
  readonly name: string
  readonly value: number
  /** Any of it is one too many. */
  readonly isBad?: boolean
}

/** The numbers behind the verdict; that something is not there is a number, too. */
export function Figures({ status, silent }: { readonly status: WorldStatus; readonly silent: readonly string[] }) {
  const unlisted = status.leaks.filter(isUnreachable).length
  const figures: readonly Figure[] = [
    { name: 'processes running', value: status.runningProcesses },
    { name: 'resources held', value: totalOf(status) },
    { name: 'agents on record', value: status.agentCount },
    { name: 'messages kept', value: status.messageCount },
    { name: 'subscriptions open', value: status.activeSubscriptions },
    { name: 'stuck', value: status.stuck.length, isBad: true },
    { name: 'held back', value: heldBackOf(status).owed.length, isBad: true },
    { name: 'leaks', value: status.leaks.length - unlisted, isBad: true },
    { name: 'unreachable', value: unlisted + silent.length, isBad: true },
  ]
  return (
    <dl className="figures">
      {figures.map(({ name, value, isBad }) => (
        <div key={name} className={`figures__one ${isBad ? (value > 0 ? 'figures__one--bad' : 'figures__one--none') : ''}`}>
          <dt>{name}</dt>
          <dd>{count(value)}</dd>
        </div>
      ))}
    </dl>
  )
}
