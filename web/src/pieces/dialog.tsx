import { type ReactNode, useEffect, useId, useRef } from 'react'
import { focusHeading } from './focus.ts'

export interface DialogProps {
  readonly title: string
  readonly onClose: () => void
  /** While true, Escape and the close button do not close the dialog. */
  readonly isBusy?: boolean
  readonly isWide?: boolean
  readonly children: ReactNode
}

/** A modal `<dialog>`: the rest of the page is inert, Escape closes it, and the focus returns to where it was before. */
export function Dialog({ title, onClose, isBusy = false, isWide = false, children }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null)
  const titleId = useId()
  useEffect(() => {
    const before = document.activeElement
    const shown = dialog.current
    if (shown && !shown.open) shown.showModal()
    return () => {
      shown?.close()
      // React removes the dialog element, so the browser cannot restore the focus itself.
      if (before instanceof HTMLElement && before.isConnected) before.focus()
      else focusHeading()
    }
  }, [])
  return (
    <dialog
      ref={dialog}
      className={`dialog ${isWide ? 'dialog--wide' : ''}`}
      aria-labelledby={titleId}
      onCancel={(event) => {
        event.preventDefault()
        if (!isBusy) onClose()
      }}
      onClose={({ currentTarget }) => {
        // Browsers ignore `preventDefault` of repeated `cancel` events and close the dialog anyway.
        if (currentTarget.open) return
        if (isBusy) currentTarget.showModal()
        else onClose()
      }}
    >
      <div className="dialog__head">
        <h2 id={titleId}>{title}</h2>
        <button type="button" className="button button--quiet" onClick={onClose} disabled={isBusy} aria-label="Close">
          ✕
        </button>
      </div>
      {children}
    </dialog>
  )
}
