import { useWindowVirtualizer } from '@tanstack/react-virtual'
import { type KeyboardEvent, type ReactNode, useCallback, useEffect, useRef, useState } from 'react'
import { focusHeading, useFocusFallback } from './focus.ts'

export interface Column<T> {
  readonly name: string
  readonly cell: (row: T) => ReactNode
  /** True for a column of numbers, which is right-aligned with digits of equal width. */
  readonly isNumber?: boolean
  /** The column that names the row. On a narrow page it is the head of the card. */
  readonly isMain?: boolean
}

export interface DataTableProps<T> {
  readonly label: string
  readonly columns: readonly Column<T>[]
  readonly rows: readonly T[]
  readonly keyOf: (row: T) => string
  /** The target of the row's link, which wraps the main cell. */
  readonly hrefOf?: (row: T) => string
  /** The row that gets the focus initially, and is scrolled into view: the one that the user returns from. */
  readonly focusKey?: string | undefined
  /** True for a table that is narrow enough to stay a table on a narrow page. */
  readonly isNarrow?: boolean
}

/** With more rows than this, only the visible ones are rendered. */
const virtualFrom = 200
const rowHeight = 45

/** A table that becomes cards on a narrow page. If rows are links, j and k or the arrow keys move between them, and Enter opens one. */
export function DataTable<T>({ label, columns, rows, keyOf, hrefOf, focusKey, isNarrow = false }: DataTableProps<T>) {
  const table = useRef<HTMLTableElement>(null)
  useFocusFallback(table)
  const [scrollMargin, setScrollMargin] = useState(0)
  const isVirtual = rows.length > virtualFrom
  const virtual = useWindowVirtualizer({
    count: rows.length,
    enabled: isVirtual,
    estimateSize: () => rowHeight,
    overscan: 12,
    scrollMargin,
    getItemKey: (index) => {
      const row = rows[index]
      return row === undefined ? index : keyOf(row)
    },
  })
  useEffect(() => {
    if (isVirtual) setScrollMargin((table.current?.getBoundingClientRect().top ?? 0) + window.scrollY)
  }, [isVirtual])
  const pendingFocus = useRef<number | undefined>(undefined)
  const focusRow = useCallback(
    (index: number) => {
      const link = table.current?.querySelector<HTMLElement>(`tr[data-index="${index}"] a`)
      pendingFocus.current = link ? undefined : index
      link?.focus()
      if (!link && isVirtual) virtual.scrollToIndex(index, { align: 'center' })
    },
    [isVirtual, virtual],
  )
  useEffect(() => {
    // The row that is to get the focus was not rendered when the focus was requested, and may be rendered now.
    if (pendingFocus.current !== undefined) focusRow(pendingFocus.current)
  })
  const mustRestoreFocus = useRef(focusKey !== undefined)
  useEffect(() => {
    if (!mustRestoreFocus.current) return
    mustRestoreFocus.current = false
    // The focus is not restored if the user has moved it meanwhile.
    const index = /^(BODY|H1)$/.test(document.activeElement?.tagName ?? '') ? rows.findIndex((row) => keyOf(row) === focusKey) : -1
    if (index !== -1) focusRow(index)
  }, [rows, keyOf, focusKey, focusRow])
  const focused = useRef<string>(undefined)
  useEffect(() => {
    if (focused.current === undefined || rows.some((row) => keyOf(row) === focused.current)) return
    // The focused row was removed. Browsers fire no blur event in this case.
    focused.current = undefined
    if (document.activeElement === document.body) focusHeading()
  }, [rows, keyOf])
  const step = useCallback(
    (by: number) => {
      // Keys may arrive faster than rows are rendered, so a pending row counts as the current one.
      const at = pendingFocus.current ?? document.activeElement?.closest<HTMLElement>('tr[data-index]')?.dataset.index
      const next = at === undefined ? 0 : Number(at) + by
      if (next >= 0 && next < rows.length) focusRow(next)
    },
    [rows.length, focusRow],
  )
  useEffect(() => {
    const onKey = (event: globalThis.KeyboardEvent): void => {
      if (hrefOf === undefined || event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return
      if (event.key === 'j') step(1)
      else if (event.key === 'k') step(-1)
    }
    document.addEventListener('keydown', onKey)
    return () => document.removeEventListener('keydown', onKey)
  }, [step, hrefOf])
  const arrows = (event: KeyboardEvent): void => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key]
    if (by === undefined || hrefOf === undefined) return
    event.preventDefault()
    step(by)
  }

  const items = isVirtual ? virtual.getVirtualItems() : undefined
  const before = items ? Math.max(0, (items[0]?.start ?? 0) - scrollMargin) : 0
  const after = items ? Math.max(0, virtual.getTotalSize() - ((items.at(-1)?.end ?? 0) - scrollMargin)) : 0
  const shown = items ? items.flatMap(({ index }) => (rows[index] === undefined ? [] : [{ row: rows[index], index }])) : undefined
  return (
    <table
      ref={table}
      className={`table ${isNarrow ? '' : 'table--cards'}`}
      aria-label={label}
      aria-rowcount={isVirtual ? rows.length + 1 : undefined}
      onKeyDown={arrows}
      onFocus={({ target }) => {
        const row = rows[Number(target.closest<HTMLElement>('tr[data-index]')?.dataset.index)]
        focused.current = row && keyOf(row)
      }}
      onBlur={() => {
        focused.current = undefined
      }}
    >
      <thead>
        <tr>
          {columns.map(({ name, isNumber }) => (
            <th key={name} scope="col" className={isNumber ? 'number' : undefined}>
              {name}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {before > 0 && <Space height={before} columns={columns.length} />}
        {(shown ?? rows.map((row, index) => ({ row, index }))).map(({ row, index }) => (
          <tr
            key={keyOf(row)}
            data-index={index}
            ref={isVirtual ? virtual.measureElement : undefined}
            aria-rowindex={isVirtual ? index + 2 : undefined}
          >
            {columns.map(({ name, cell, isNumber, isMain }) => (
              <td key={name} data-label={name} className={isMain ? 'main' : isNumber ? 'number' : undefined}>
                {isMain && hrefOf ? <a href={hrefOf(row)}>{cell(row)}</a> : cell(row)}
              </td>
            ))}
          </tr>
        ))}
        {after > 0 && <Space height={after} columns={columns.length} />}
      </tbody>
    </table>
  )
}

function Space({ height, columns }: { readonly height: number; readonly columns: number }) {
  return (
    <tr className="table__space">
      <td colSpan={columns} style={{ height }} />
    </tr>
  )
}

export function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName))
}
